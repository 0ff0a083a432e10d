"""The folder of a run: resolved config, environment, metrics, summary, checkpoint, final model.

config.toml             every setting, defaults filled in
environment.json        versions, commit, hardware, command line, and what theory settled
metrics.jsonl           a line for every round (round −1 is the start-up)
checkpoint.safetensors  the newest state a run can go on from
model.safetensors       the final model x
summary.json            written when the run ends
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from fedamd.engines.client_store import DiskStore
from fedamd.errors import FedamdError
from fedamd.registry import importable, user_folders
from fedamd.runs import checkpoint
from fedamd.runs.config import Config, load_config, to_toml
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.summary import Summary, summarise

try:
    import fcntl
except ImportError:  # no locks on this system
    fcntl = None  # type: ignore[assignment]

CONFIG, ENVIRONMENT, METRICS = "config.toml", "environment.json", "metrics.jsonl"
CHECKPOINT, MODEL, SUMMARY, HELD = "checkpoint.safetensors", "model.safetensors", "summary.json", "held.sqlite"
_CHANGEABLE = frozenset(  # in a run that has begun: what leaves its trajectory alone
    ("rounds", "target_accuracy", "evaluate_every", "checkpoint_every", "engine", "oracle", "device", "micro_batch")
)


class Folder:
    """Writes a run's records as they come."""

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path = path
        self._writes = writes  # of several processes in one run, only one does

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        writes: bool = True,
        given: Mapping[str, str] | None = None,
        theory: Mapping[str, Any] | None = None,
    ) -> "Folder":
        """A new folder for a new run; one that already holds something is left alone.

        `given` are the objects that stand in for sections of the config, in words; `theory` is what theory settled.
        """
        if not writes:
            return cls(path, writes)
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FedamdError(f"cannot create {path}: {error.strerror}") from None
        checkpoint.write_text(path / CONFIG, to_toml(config.plain()))
        checkpoint.write_text(
            path / ENVIRONMENT,
            json.dumps(environment(config) | {"given": dict(given or {}), "theory": dict(theory or {})}, indent=2)
            + "\n",
        )
        return cls(path)

    @classmethod
    def open(cls, path: Path, writes: bool = True) -> "Folder":
        """The folder of a run that was begun."""
        if not (path / CONFIG).is_file():
            raise FedamdError(f"{path} holds no run (no {CONFIG} in it): --resume takes the folder of a run")
        return cls(path, writes)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse to share the folder with another process; the system lets go of it however this one ends."""
        with exclusively(self.path) if self._writes else nullcontext():
            yield

    def config(self, changes: Mapping[str, Any] | None = None, *, stored: bool = False) -> Config:
        """The run's config; only what leaves its trajectory alone may be changed. `stored` imports no user's code."""
        for key in changes or {}:
            if key not in _CHANGEABLE:
                raise FedamdError(
                    f"{key} cannot change in a run that has begun; what can is {', '.join(sorted(_CHANGEABLE))}"
                )
        for folder in [] if stored else self.environment().get("modules", []):
            importable(Path(folder))
        return load_config(self.path / CONFIG, changes, stored=stored)

    def environment(self) -> dict[str, Any]:
        """What environment.json says; nothing where the run was killed before it was written."""
        path = self.path / ENVIRONMENT
        return read_json(path) if path.exists() else {}

    def check_given(self, given: Mapping[str, str]) -> None:
        """Refuse to go on without the objects the run began with, or with others."""
        begun = self.environment().get("given", {})
        for name in begun.keys() | given.keys():
            if begun.get(name) != given.get(name):
                raise FedamdError(
                    f"{self.path} was begun with {name} = {begun.get(name, 'as in its config')}: resume it with that"
                )

    def held(self) -> DiskStore:
        return DiskStore(self.path / HELD)

    def restore(self, run: Run) -> None:
        """Put the run back to its last checkpoint, and cut the metrics to the rounds done then."""
        if (self.path / CHECKPOINT).exists():
            tensors, facts = checkpoint.load(self.path / CHECKPOINT)
            x = tensors.get("state.x")
            if "t" not in facts or x is None or x.shape != run.state.x.shape:
                raise FedamdError(f"{self.path / CHECKPOINT} is not a checkpoint of the run in {self.path}")
            if facts["t"] > run.config.rounds:
                raise FedamdError(f"rounds is {run.config.rounds}, but {facts['t']} rounds are done in {self.path}")
            run.restore(tensors, facts)
            run.status = "running" if run.status == "finished" and run.t < run.config.rounds else run.status
        elif isinstance(run.site.held, DiskStore):
            run.site.held.rewind(-2)  # before the start-up
        done = [record for record in self.metrics() if record.round < run.t] if run.started else []
        run.records = done
        if self._writes:
            checkpoint.write_text(self.path / METRICS, "".join(map(_line, done)))
            checkpoint.write_text(self.path / CONFIG, to_toml(run.config.plain()))

    def metrics(self) -> list[Record]:
        """The lines written so far; a last line that was cut short does not count."""
        path = self.path / METRICS
        if not path.exists():
            return []
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
        records = []
        for number, line in enumerate(lines[:-1], start=1):
            try:
                records.append(Record.from_json(json.loads(line)))
            except json.JSONDecodeError:
                raise FedamdError(f"{path}, line {number}: not valid JSON") from None
            except ValueError as error:
                raise FedamdError(f"{path}, line {number}: {error}") from None
        return records

    def add(self, run: Run, record: Record) -> None:
        """A line of metrics, and a checkpoint when one is due."""
        if self._writes:
            with (self.path / METRICS).open("a", encoding="utf-8") as file:
                file.write(_line(record))
        if run.t % run.config.checkpoint_every == 0 or not run.live:
            self.save(run)

    def save(self, run: Run) -> None:
        """A checkpoint of the run as it is between two rounds."""
        held = run.site.held
        if isinstance(held, DiskStore):
            held.flush(run.t)
        tensors = run.tensors()  # on every process: what its clients hold is gathered from all
        if self._writes:
            checkpoint.save(self.path / CHECKPOINT, tensors, run.facts())
        if isinstance(held, DiskStore):
            held.forget_before(run.t)

    def finish(self, run: Run, status: str) -> Summary:
        """The summary and the final model."""
        summary = summarise(run, status)
        if self._writes:
            checkpoint.save(self.path / MODEL, {"x": run.state.x}, {"parameters": parameter_shapes(run)})
            checkpoint.write_text(self.path / SUMMARY, json.dumps(summary, indent=2) + "\n")
        return summary


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold the lock of a folder; a second holder is refused."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedamdError(f"another process is at work in {path}") from None
        yield
    finally:
        os.close(descriptor)


def _line(record: Record) -> str:
    return json.dumps(record.to_json()) + "\n"


def parameter_shapes(run: Run) -> dict[str, list[int]]:
    """How the flat vector x divides into the model's parameters."""
    return {name: list(parameter.shape) for name, parameter in run.experiment.model.named_parameters()}


def default_folder(config: Config, parent: Path = Path("runs")) -> Path:
    """A name that says what the run is, and that no other run has."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{config.algorithm.name}-{config.data.name}-seed{config.seed}"
    names = (f"{stem}-{number}" if number else stem for number in range(10_000))
    return next(path for path in (parent / name for name in names) if not path.exists())


def environment(config: Config, command: Sequence[str] | None = None) -> dict[str, Any]:
    """What a reader needs to repeat the run."""
    packages = {name: version for name in ("fedamd", "numpy", "flwr") if (version := _version(name))}
    return {
        "command": list(command or sys.argv),
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": packages | {"torch": torch.__version__},  # which build, too: its metadata may leave that out
        "platform": platform.platform(),
        "processor_threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name()
        if config.device == "cuda"
        else platform.processor() or platform.machine(),
        "modules": user_folders(),  # where the modules that the config names were looked for
        "begun": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def refuse_taken(path: Path) -> None:
    """What is in a folder is left alone: a new run wants a new one, or one that is empty."""
    if path.exists() and not path.is_dir():
        raise FedamdError(f"{path} is a file: choose another --out")
    if path.exists() and any(path.iterdir()):
        resume = f", or continue the run in it with --resume {path}" if (path / CONFIG).exists() else ""
        raise FedamdError(f"{path} is not empty: choose another --out{resume}")


def read_json(path: Path, *needed: str) -> dict[str, Any]:
    """The object in a file, which has at least the needed keys."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise FedamdError(f"{path} is not valid JSON") from None
    if not isinstance(content, dict) or not content.keys() >= set(needed):
        raise FedamdError(f"{path} is damaged: it should hold {' and '.join(needed) or 'keys and values'}")
    return content


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache  # a sweep asks for every run
def _commit() -> str | None:
    """The commit of the source tree this package runs from, with a + where the tree has changes; None if installed."""
    here = Path(__file__).parent
    try:
        output = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return output.stdout.strip() or None
