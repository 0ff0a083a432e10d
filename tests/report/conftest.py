"""Small real runs and a real browser for the tests of everything that reads run folders."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedamd.runs.api import run

SMALL: dict[str, Any] = {
    "rounds": 4,
    "clients": 6,
    "cohort": 3,
    "model": {"name": "mlp", "hidden": 8},
    "algorithm": {"name": "fedamd", "p": 0.5, "steps": 2, "small_batch": 4},
}


@pytest.fixture
def trained(tmp_path: Path) -> Callable[..., Path]:
    """`trained("name", **{"algorithm.p": 0.9})`: the folder of a run of four rounds on digits."""

    def train(name: str, **changes: Any) -> Path:
        folder = run(SMALL, out=tmp_path / name, **changes).folder
        assert folder is not None
        return folder

    return train


CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(CHROMIUM))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """`visit(address, width=…, color_scheme=…)` is the open page; any error on a page's console fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_page(address: str, width: int = 1200, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
