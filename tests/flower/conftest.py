"""Tests of the Flower part: skipped as a whole where Flower is not installed."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
sys.path.insert(0, str(Path(__file__).parent))  # for flower_support

from flower_support import Federation
from process_support import CLIENTS

from fedamd.flower.local import processes
from fedamd.flower.local.loopback import Loopback


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The faults of these tests are expected: their warnings stay out of the report."""
    logger = logging.getLogger("fedamd.flower")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


@pytest.fixture
def federation(tmp_path: Path) -> Callable[..., Federation]:
    """`federation(raw, **settings)`: in a folder of this test's own."""

    def make(raw: dict[str, Any], **settings: Any) -> Federation:
        return Federation(tmp_path, raw, **settings)

    return make


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """One real federation for all tests of a file that leave it as they find it."""
    with Loopback(tmp_path_factory.mktemp("federation"), CLIENTS) as up:
        mark = up.mark
        yield up
    assert processes.marked(mark) == [], "a process was left behind"
