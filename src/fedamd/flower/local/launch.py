"""Handing a run to a SuperLink: the app it executes, its log, and how it ended."""

import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.flower.app.settings import Flat, flatten, read_settings
from fedamd.flower.local import processes
from fedamd.flower.local.loopback import CONNECTION, Loopback

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
    """The settings of a run: a TOML file, or the folder of a Flower app (its [tool.flwr.app.config])."""
    file = path / "pyproject.toml" if path.is_dir() else path
    try:
        raw: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedamdError(f"there is no {file}: give a TOML file, or the folder of a Flower app") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FedamdError(f"{file} cannot be read: {error}") from None
    if path.is_dir():
        raw = raw.get("tool", {}).get("flwr", {}).get("app", {}).get("config", {})
    return flatten(raw)


def write_app(source: Path, settings: Mapping[str, Any], folder: Path) -> None:
    """A Flower app with these settings in `folder`, with the Python files of the app it is made from."""
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs", "__pycache__", ".*"))
    name = "".join(letter if letter.isalnum() else "-" for letter in source.stem) or "run"
    config = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in settings.items())
    (folder / "pyproject.toml").write_text(_APP.format(name=name, config=config), encoding="utf-8")


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

    def follow(self, run: str) -> None:
        """Show the server's log until the run has ended."""
        subprocess.run(["flwr", "log", run, *self._connection, "--stream"], env=self._env, check=False)

    def status(self, run: str) -> str:
        """As in "running", "finished:completed" or "finished:failed"."""
        answer = self._ask("list", *self._connection, "--run-id", run)
        return str(answer["runs"][0]["status"])

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


def run_on(superlink: SuperLink, source: Path, settings: Mapping[str, Any]) -> str:
    """Check the settings here, run them there, show the log; how it ended."""
    read_settings(settings)
    run = superlink.submit(source, settings)
    superlink.follow(run)
    return superlink.status(run)


def run_locally(source: Path, settings: Mapping[str, Any], tls: bool) -> str:
    """The same on a federation that is there for this run alone."""
    config, _ = read_settings(settings)
    with processes.leaving_on_signals(), tempfile.TemporaryDirectory(prefix="fedamd-federation-") as temporary:
        folder = Path(temporary)
        with Loopback(folder, config.clients, tls):
            return run_on(up_in(folder), source, settings_for(folder, settings))


def up_in(folder: Path) -> SuperLink:
    """The SuperLink of the federation that is up in this folder."""
    if not (folder / "mark").exists():
        raise FedamdError(
            f"no federation is up in {folder}: start one with `fedamd federation up`, or use --local or --superlink"
        )
    mark = (folder / "mark").read_text(encoding="utf-8")
    return SuperLink(CONNECTION, processes.environment(folder.absolute() / "flwr", mark))


def settings_for(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on the federation in this folder: absolute paths, and its clients' keys where it has any."""
    _, federation = read_settings(settings)
    keys = folder.absolute() / "keys" / "clients.txt"
    own = {"federation.folder": str(Path(federation.folder).absolute())}
    if keys.exists():
        own["federation.keys"] = str(keys)
    return dict(settings) | own
