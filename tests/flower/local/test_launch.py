"""From a file or an app's folder to the app Flower gets."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from flwr.common.config import validate_config

from fedamd.errors import FedamdError
from fedamd.flower.local import launch
from fedamd.flower.local.inprocess import run_in_process
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


class Scripted(SuperLink):
    """A SuperLink whose log breaks off after a while."""

    def __init__(self, tmp_path: Path, logs: list[list[str]], statuses: list[str | FedamdError]) -> None:
        super().__init__(None)
        self._logs, self._statuses = logs, statuses
        self._env = {"PATH": str(tmp_path)}
        self._flwr = tmp_path / "flwr"
        self.stopped: list[str] = []

    def _show_log(self, run: str, seen: int, show: Callable[[str], None]) -> int:
        lines = "".join(f"echo '{line}'\n" for line in self._logs.pop(0))
        self._flwr.write_text(f"#!/bin/sh\n{lines}")
        self._flwr.chmod(0o700)
        return super()._show_log(run, seen, show)

    def status(self, run: str) -> str:  # noqa: ARG002
        if isinstance(said := self._statuses.pop(0), FedamdError):
            raise said
        return said

    def submit(self, source: Path, settings: Mapping[str, object]) -> str:  # noqa: ARG002
        return "17"

    def stop(self, run: str) -> None:
        self.stopped.append(run)


def test_a_log_that_breaks_off_is_not_the_end_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_AGAIN", 0)
    logs = [["INFO : noise", "round 1"], [], ["INFO : noise", "round 1", "round 2"]]
    link = Scripted(tmp_path, logs, ["running", "running", "finished:completed"])
    shown: list[str] = []
    assert link.follow("17", shown.append) == "finished:completed"
    assert shown == ["round 1", "round 2"]


def test_a_superlink_that_is_too_busy_to_answer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_AGAIN", 0)
    busy = FedamdError("`flwr list` failed: unavailable")
    shown: list[str] = []
    link = Scripted(tmp_path, [["round 1"]], [busy, busy, "finished:completed"])
    assert link.follow("17", shown.append) == "finished:completed"
    assert shown == ["round 1", "the SuperLink does not answer; waiting for it, up to 120 s"]
    monkeypatch.setattr(launch, "_PATIENCE", -1.0)
    with pytest.raises(FedamdError, match="unavailable"):
        Scripted(tmp_path, [[]], [busy]).follow("17", shown.append)


def test_ctrl_c_ends_the_run_where_it_runs_and_says_how_to_go_on(tmp_path: Path) -> None:
    link = Scripted(tmp_path, [["round 1"]], [])
    shown: list[str] = []

    def show(line: str) -> None:
        shown.append(line)
        if line == "round 1":
            raise KeyboardInterrupt

    assert launch.run_on(link, EXAMPLE, read_app(EXAMPLE), show) == "finished:stopped"
    assert link.stopped == ["17"]
    assert "continues the run" in shown[-1]


def test_a_run_that_is_finished_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_app(EXAMPLE) | {"rounds": 2, "federation.folder": str(tmp_path / "run")}
    assert launch.finished_before(settings) == ""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    run_in_process(EXAMPLE, settings)
    assert "all its 2 rounds done: --out starts another one" in launch.finished_before(settings)
    assert launch.finished_before(settings | {"rounds": 3}) == ""
    assert sorted(path.name for path in (tmp_path / "run-clients").glob("*.sqlite")) == [
        f"client-{client}.sqlite" for client in range(4)
    ]
