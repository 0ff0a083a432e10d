"""The key that signs a user's own folders: whole at any moment, one for all processes, made anew where it is cut."""

import stat

import pytest

from fedamd.runs.trust import own_code, signature

CODE = {"algorithm": {"name": "mine:Method", "p": "mine:p"}, "metrics": ["mine:score"]}


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "fedamd" / "key"


def test_it_is_made_once_and_read_by_nobody_else(key):
    first = signature(CODE, ["here"])
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["key"]
    assert signature(CODE, ["here"]) == first
    assert signature(CODE, ["there"]) != first
    assert signature({"algorithm": {"name": "fedamd"}}, []) == ""


@pytest.mark.parametrize("content", [b"", b"cut short"])
def test_one_that_a_crash_has_cut_short_is_made_anew(key, content):
    key.parent.mkdir()
    key.write_bytes(content)
    assert len(signature(CODE, [])) == 64
    assert len(key.read_bytes()) == 32


def test_without_a_place_for_it_nothing_is_signed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert signature(CODE, []) == ""


def test_code_is_found_wherever_it_is_named():
    assert own_code(CODE) == ["mine:Method", "mine:p", "mine:score"]
