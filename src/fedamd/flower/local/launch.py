"""Handing a run to a SuperLink: the app it executes, its log, and how it ended."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.flower.app.settings import Flat, flatten, read_settings
from fedamd.flower.local import mark, processes
from fedamd.flower.local.loopback import CONNECTION, Loopback
from fedamd.registry import importable, is_object_path
from fedamd.runs.folder import SUMMARY, Folder
from fedamd.runs.toml import read_toml

Show = Callable[[str], None]
_LEFT_HERE = shutil.ignore_patterns("runs", "__pycache__", ".*")  # of an app's folder
_AGAIN = 2.0  # seconds before a log that broke off is read again
_PATIENCE = 120.0  # seconds in which a SuperLink may be too busy to say how a run goes
_OF_FLOWER = re.compile(r"INFO|Using SuperLink|Successfully installed")  # lines that say nothing about the run

_APP = """[project]
name = "{name}"
version = "1.0.0"
description = "A fedamd run"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedamd"

[tool.flwr.app.components]
serverapp = "fedamd.flower.app.server:app"
clientapp = "fedamd.flower.app.client:app"

[tool.flwr.app.config]
{config}"""


def read_app(path: Path) -> Flat:
    """The settings of a run: a TOML file, or the folder of a Flower app (its [tool.flwr.app.config]). Modules in the
    folder, or beside the file, can be named in them, and travel with the run."""
    importable(path if path.is_dir() else path.parent)
    file = path / "pyproject.toml" if path.is_dir() else path
    if not file.exists():
        raise FedamdError(f"there is no {file}: give a TOML file, or the folder of a Flower app")
    raw = read_toml(file)
    if path.is_dir():
        raw = raw.get("tool", {}).get("flwr", {}).get("app", {}).get("config", {})
    return flatten(raw)


def write_app(source: Path, settings: Mapping[str, Any], folder: Path) -> None:
    """A Flower app with these settings in `folder`, with the Python files of the app it is made from."""
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=_LEFT_HERE)
    elif any(_is_beside(source, value) for value in settings.values()):
        _copy_modules(source.parent, folder)
    name = "".join(letter if letter.isalnum() else "-" for letter in source.stem) or "run"
    config = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in settings.items())
    (folder / "pyproject.toml").write_text(_APP.format(name=name, config=config), encoding="utf-8")


def _is_beside(source: Path, value: object) -> bool:
    """Whether this names an object in a module beside the file, as in "my_method:Mine"."""
    if not is_object_path(value):
        return False
    first = str(value).partition(":")[0].partition(".")[0]
    return (source.parent / f"{first}.py").is_file() or (source.parent / first / "__init__.py").is_file()


def _copy_modules(here: Path, folder: Path) -> None:
    """The modules and packages beside a file: the one it names may need the others."""
    for file in here.glob("*.py"):
        shutil.copy2(file, folder)
    for package in {init.parent for init in here.glob("*/__init__.py")}:
        shutil.copytree(package, folder / package.name, ignore=_LEFT_HERE)


class SuperLink:
    """A SuperLink as the `flwr` command sees it: by the name of its connection."""

    def __init__(self, connection: str | None, env: Mapping[str, str] | None = None) -> None:
        self._connection = [connection] if connection else []
        self._env = dict(env or os.environ | {"PATH": processes.search_path()})

    def submit(self, source: Path, settings: Mapping[str, Any]) -> str:
        """Start a run; its id."""
        with tempfile.TemporaryDirectory(prefix="fedamd-app-") as folder:
            write_app(source, settings, Path(folder))
            answer = self._ask("run", folder, *self._connection)
        return str(answer["run-id"])

    def follow(self, run: str, show: Show) -> str:
        """Show the server's log until the run has ended; how it did.

        The stream may break while the run goes on (the SuperLink is busy, or was restarted): only the status says that
        a run has ended. A stream that is opened again tells everything from the beginning.
        """
        seen = 0
        while True:
            seen = self._show_log(run, seen, show)
            status = self._patient_status(run, show)
            if status.startswith("finished"):
                return status
            time.sleep(_AGAIN)

    def _patient_status(self, run: str, show: Show) -> str:
        """A SuperLink may be too busy to answer, or be started again, while the run goes on."""
        end, told = time.monotonic() + _PATIENCE, False
        while True:
            try:
                return self.status(run)
            except FedamdError:
                if time.monotonic() > end:
                    raise
            if not told:
                show(f"the SuperLink does not answer; waiting for it, up to {_PATIENCE:.0f} s")
            told = True
            time.sleep(_AGAIN)

    def stop(self, run: str) -> None:
        """End a run; its folder stays as it was after its last round."""
        self._ask("stop", run, *self._connection)

    def _show_log(self, run: str, seen: int, show: Show) -> int:
        """The lines after those that have been seen; how many there are now."""
        command = ["flwr", "log", run, *self._connection, "--stream"]
        count = 0
        with subprocess.Popen(
            command, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as stream:
            assert stream.stdout is not None
            for line in stream.stdout:
                if line.strip() and not _OF_FLOWER.search(line):
                    count += 1
                    if count > seen:
                        show(line.rstrip())
        return max(count, seen)

    def status(self, run: str) -> str:
        """As in "running", "finished:completed" or "finished:failed"."""
        answer = self._ask("list", *self._connection, "--run-id", run)
        return str(answer["runs"][0]["status"])

    def runs(self) -> list[dict[str, Any]]:
        """As `flwr list` tells them, the newest first."""
        return list(self._ask("list", *self._connection)["runs"])

    def nodes(self) -> list[dict[str, Any]]:
        """As `flwr supernode list` tells them."""
        return list(self._ask("supernode", "list", *self._connection)["nodes"])

    def _ask(self, *words: str) -> dict[str, Any]:
        command = ["flwr", *words, "--format", "json"]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except json.JSONDecodeError:
            answer = {}
        if done.returncode or not answer.get("success", True) or not answer:
            reason = " ".join(str(answer.get("error-message") or done.stderr or done.stdout).split())
            raise FedamdError(f"`{' '.join(command)}` failed: {reason[-600:]}")
        return answer


def run_on(superlink: SuperLink, source: Path, settings: Mapping[str, Any], show: Show = print) -> str:
    """Check the settings here, run them there, show the log; how it ended. Ctrl-C ends the run there, too."""
    read_settings(settings)
    show("handing the run to the SuperLink")
    run = superlink.submit(source, settings)
    try:
        return superlink.follow(run, show)
    except KeyboardInterrupt:
        superlink.stop(run)
        show("stopped; the same command continues the run from its last round")
        return "finished:stopped"


def run_locally(source: Path, settings: Mapping[str, Any], tls: bool, show: Show = print) -> str:
    """The same on a federation that is there for this run alone; what its clients hold is kept beside the run."""
    config, federation = read_settings(settings)
    with processes.leaving_on_signals(), tempfile.TemporaryDirectory(prefix="fedamd-federation-") as temporary:
        folder = Path(temporary)
        with Loopback(folder, config.clients, tls, state=clients_of(federation.folder), tell=show):
            return run_on(up_in(folder), source, settings_for(folder, settings), show)


def clients_of(folder: str) -> Path:
    """Where clients on this machine keep what they hold for a run of their own."""
    return Path(f"{Path(folder).absolute()}-clients")


def finished_before(settings: Mapping[str, Any]) -> str:
    """A sentence, if the run is in its folder and there is nothing left to do; else nothing."""
    config, federation = read_settings(settings)
    folder = Path(federation.folder)
    if not (folder / SUMMARY).exists():
        return ""
    rounds = len([record for record in Folder(folder).metrics() if record.round >= 0])
    if rounds < config.rounds:
        return ""
    return (
        f"{folder} holds this run, with all its {rounds} rounds done: --out starts another one, "
        "--set rounds=… continues it"
    )


def up_in(folder: Path) -> SuperLink:
    """The SuperLink of the federation that is up in this folder."""
    there = mark.read(folder)
    if there is None:
        raise FedamdError(
            f"no federation is up in {folder}: start one with `fedamd federation up`, or use --local or --superlink"
        )
    return SuperLink(CONNECTION, processes.environment(folder.absolute() / "flwr", there.word))


def settings_for(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on the federation in this folder: absolute paths, and its clients' keys where it has any."""
    _, federation = read_settings(settings)
    keys = folder.absolute() / "keys" / "clients.txt"
    own = {"federation.folder": str(Path(federation.folder).absolute())}
    if keys.exists():
        own["federation.keys"] = str(keys)
    return dict(settings) | own
