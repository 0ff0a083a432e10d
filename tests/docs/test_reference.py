"""The reference is made from the code: every key of a config has a meaning, every public name a docstring."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import fedamd

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    pytest.importorskip("mkdocs", reason="the documentation's tools are not installed")
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "hooks" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_key_has_a_meaning(reference: ModuleType) -> None:
    rows = [line for line in reference.config_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if not row.split(" | ")[-1].strip(" |")] == []


def test_defaults_are_those_of_the_code(reference: ModuleType) -> None:
    page = reference.config_page()
    assert "| `rounds` | `int` | `100` | T, the number of rounds |" in page
    assert "| `server` | `Literal['plain', 'momentum', 'adagrad', 'adam', 'yogi']` | `'adam'` |" in page  # a preset


def test_every_command_is_there(reference: ModuleType) -> None:
    page = reference.commands_page()
    for command in ("run", "compare", "federation run", "data fetch", "doctor", "new"):
        assert f"`fedamd {command}`" in page


@pytest.mark.parametrize("name", fedamd.__all__)
def test_every_public_name_explains_itself(name: str) -> None:
    assert getattr(fedamd, name).__doc__
