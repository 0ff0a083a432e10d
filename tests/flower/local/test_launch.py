"""From a file or an app's folder to the app Flower gets."""

import tomllib
from pathlib import Path

import pytest
from flwr.common.config import validate_config

from fedamd.errors import FedamdError
from fedamd.flower.local.launch import SuperLink, read_app, settings_for, write_app

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower_digits"


def test_the_settings_of_a_file_and_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('rounds = 3\n[algorithm]\nname = "fedavg"\n[federation]\ndeadline = 9\n')
    assert read_app(tmp_path / "a.toml") == {"rounds": 3, "algorithm.name": "fedavg", "federation.deadline": 9}
    assert read_app(EXAMPLE)["federation.task"] == "task:task"


@pytest.mark.parametrize("text", [None, "rounds = = 3"])
def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "a.toml").write_text(text)
    with pytest.raises(FedamdError, match=r"a\.toml"):
        read_app(tmp_path / "a.toml")


def test_the_app_is_one_that_flower_accepts_and_has_every_setting_in_it(tmp_path: Path) -> None:
    settings = read_app(EXAMPLE) | {"federation.folder": 'a "quoted" \\ folder', "algorithm.mu": 0.5, "x": True}
    write_app(EXAMPLE, settings, tmp_path)
    app = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert app["tool"]["flwr"]["app"]["config"] == settings
    assert (tmp_path / "task.py").exists()
    assert validate_config(app, project_dir=tmp_path) == (True, [], [])


def test_flower_accepts_the_example_itself() -> None:
    app = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert validate_config(app, project_dir=EXAMPLE) == (True, [], [])


def test_on_this_machine_paths_are_absolute_and_keys_are_checked(tmp_path: Path) -> None:
    assert "federation.keys" not in settings_for(tmp_path, {})
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "clients.txt").write_text("")
    settings = settings_for(tmp_path, {"federation.folder": "runs/a", "rounds": 2})
    assert settings == {
        "rounds": 2,
        "federation.folder": str(Path.cwd() / "runs" / "a"),
        "federation.keys": str(tmp_path / "keys" / "clients.txt"),
    }


def test_flowers_refusal_is_one_line_and_its_programs_need_no_activated_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(FedamdError) as refused:
        SuperLink("nosuch").submit(EXAMPLE, read_app(EXAMPLE))
    assert str(refused.value).startswith("`flwr run ")
    assert "connection 'nosuch' not found" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "{" not in str(refused.value)
