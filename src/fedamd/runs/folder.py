"""The folder of a run: resolved config, environment, metrics, summary, checkpoints, final model.

config.toml                      every setting, defaults filled in
environment.json                 versions, commit, hardware, command line, and what theory settled
metrics.jsonl                    a line for every round (round −1 is the start-up)
checkpoint.safetensors           the newest state a run can go on from
checkpoint.previous.safetensors  the one before, should the newest be damaged
held.sqlite                      what clients hold, with client_store = "disk"
model.safetensors                the final model, a named state_dict
summary.json                     written when the run ends

What a checkpoint relies on is on disk before it, and what it replaces goes after it: the metrics are synced, what
clients hold is committed, the checkpoint is synced, its name is synced; only then is anything older forgotten. Every
file carries checksums, and a checkpoint says which settings, data and model it belongs to (`identity`): whatever is
not as it was written is refused when the run goes on.
"""

import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

from fedamd.engines.disk_store import DiskStore
from fedamd.errors import FedamdError, FedamdWarning
from fedamd.files import exclusively, is_debris, is_text, make_folder, read_text, write_text
from fedamd.registry import importable
from fedamd.runs import checkpoint
from fedamd.runs.config import Config, load_config, to_toml
from fedamd.runs.environment import differences, environment
from fedamd.runs.identity import CHANGEABLE, identity, refuse_other
from fedamd.runs.metrics import Metrics
from fedamd.runs.model_file import save_model
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.sealed import FORMAT, is_sealed_toml, read_json, sealed_json, sealed_toml
from fedamd.runs.summary import Summary, summarise
from fedamd.runs.toml import LIMIT
from fedamd.runs.trust import refuse_foreign_code, signature

CONFIG, ENVIRONMENT, METRICS = "config.toml", "environment.json", "metrics.jsonl"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
_TOLD = {"given": dict, "modules": list, "packages": dict, "theory": dict, "execution": dict}  # in the environment
MODEL, SUMMARY, HELD = "model.safetensors", "summary.json", "held.sqlite"


class Folder:
    """Writes a run's records as they come."""

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path = path
        self._writes = writes  # of several processes in one run, only one does
        self._lock: ExitStack | None = None
        self._bound: dict[str, Any] = {}  # what checkpoints are bound to, once it is known
        self._newest: int | None = None  # t of the good checkpoint under CHECKPOINT, which becomes the one before

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        writes: bool = True,
        given: Mapping[str, str] | None = None,
        theory: Mapping[str, Any] | None = None,
        execution: Mapping[str, Any] | None = None,
    ) -> "Folder":
        """A new folder for a new run, locked until `alone` ends; one that already holds something is left alone.

        `given` are the objects that stand in for sections of the config, in words; `theory` is what theory settled,
        `execution` which engine and oracle were taken, and why no faster one.
        """
        if not writes:
            return cls(path, writes)
        refuse_taken(path)
        make_folder(path)
        with ExitStack() as lock:
            lock.enter_context(exclusively(path))
            refuse_taken(path)  # another process may have been faster
            told = environment(config) | {"given": dict(given or {}), "theory": dict(theory or {})}
            told |= {"execution": dict(execution or {})}
            told["signature"] = signature(config.plain(), told["modules"])
            write_text(path / ENVIRONMENT, sealed_json(told))
            write_text(path / CONFIG, sealed_toml(to_toml(config.plain())))  # last: from now on this is a run
            folder = cls(path)
            folder._lock = lock.pop_all()
        return folder

    @classmethod
    def open(cls, path: Path, writes: bool = True) -> "Folder":
        """The folder of a run that was begun."""
        if not (path / CONFIG).is_file():
            raise FedamdError(f"{path} holds no run (no {CONFIG} in it): --resume takes the folder of a run")
        return cls(path, writes)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse to share the folder with another process; the system lets go of it however this one ends."""
        with self._lock or ExitStack() as lock:
            if self._writes and self._lock is None:
                lock.enter_context(exclusively(self.path))
            yield

    # --- what it says ---

    def config(self, changes: Mapping[str, Any] | None = None, *, stored: bool = False, trust: bool = False) -> Config:
        """The run's config; only what leaves its trajectory alone may be changed.

        `stored` imports no user's code; otherwise what the config names is imported where this user made the folder,
        or says `trust`.
        """
        for key in changes or {}:
            if key not in CHANGEABLE:
                raise FedamdError(
                    f"{key} cannot change in a run that has begun; what can is {', '.join(sorted(CHANGEABLE))}"
                )
        self.settings()
        if not stored and not trust:
            self.refuse_foreign_code()
        for folder in [] if stored else self.environment().get("modules", []):
            importable(Path(folder))
        return load_config(self.path / CONFIG, changes, stored=stored, trust=True)

    def refuse_foreign_code(self) -> None:
        """What the config names is not imported where somebody else made the folder."""
        refuse_foreign_code(self.path, self.settings(), self.environment())

    def environment(self) -> dict[str, Any]:
        """What environment.json says; a run of format 1 may have been killed before it was written."""
        path = self.path / ENVIRONMENT
        if path.exists():
            told = read_json(path)
            if wrong := [name for name, kind in _TOLD.items() if not isinstance(told.get(name, kind()), kind)]:
                raise FedamdError(f"{path} is damaged: its {wrong[0]} makes no sense")
            if not all(isinstance(word, str) for word in (*told.get("given", {}).values(), *told.get("modules", []))):
                raise FedamdError(f"{path} is damaged: it names objects or folders that are not text")
            return told
        if (self.path / CONFIG).exists() and is_sealed_toml(read_text(self.path / CONFIG)):
            raise FedamdError(f"{path} is missing: it says what the run was begun with")
        return {}

    def metrics(self) -> list[Record]:
        """The lines written so far; a last line that was cut short does not count."""
        return self._metrics.read()

    def check_given(self, given: Mapping[str, str]) -> None:
        """Refuse to go on without the objects the run began with, or with others."""
        begun = self.given()
        for name in begun.keys() | given.keys():
            if begun.get(name) != given.get(name):
                raise FedamdError(
                    f"{self.path} was begun with {name} = {begun.get(name, 'as in its config')}: resume it with that"
                )

    def refuse_unnamed(self, *parts: str) -> None:
        """Refuse to make parts from a config of an earlier version that does not tell of the objects given for them."""
        given = self.given()
        for name in parts:
            if name in given:
                raise FedamdError(
                    f"{self.path} was begun with an object from Python, {given[name]}: give it as {name}=…"
                )

    def client_store(self) -> DiskStore:
        return DiskStore(self.path / HELD)

    # --- going on ---

    def restore(self, run: Run) -> None:
        """Put the run back to its newest good checkpoint, and cut the metrics to the rounds done then."""
        found = [path for path in (self.path / CHECKPOINT, self.path / PREVIOUS) if path.exists()]
        refusals: list[str] = []
        for path in found:
            try:
                self._go_back(run, path)
                break
            except FedamdError as error:
                refusals.append(str(error))
        if run.started:
            self._tell(run, refusals)
        elif refusals:
            raise FedamdError(f"{self.path} cannot go on: {'; '.join(dict.fromkeys(refusals))}")
        else:
            run.site.store.rewind(None)
        if run.t > run.config.rounds:
            raise FedamdError(f"rounds is {run.config.rounds}, but {run.t} rounds are done in {self.path}")
        ended_early = run.status in ("finished", "stopped") and run.t < run.config.rounds
        run.status = "running" if ended_early else run.status
        if self._writes:
            self._metrics.cut(len(run.records))
            self._keep_changes(run.config)

    def add(self, run: Run, record: Record) -> None:
        """A line of metrics, and a checkpoint when one is due."""
        if self._writes:
            self._metrics.add(record)
        if run.checkpoint_due:
            self.save(run)

    def save(self, run: Run) -> None:
        """A checkpoint of the run as it is between two rounds; what it needs is on disk before it, see above."""
        run.site.store.commit(run.t)
        tensors = run.tensors()  # on every process: what its clients hold is gathered from all
        if not self._writes:
            return
        self._metrics.sync()
        facts = run.facts() | {"run": self._identity(run), "metrics": self._metrics.digest}
        keep = self.path / PREVIOUS if self._newest not in (None, run.t) else None
        checkpoint.save(self.path / CHECKPOINT, tensors, facts, keep)
        self._newest = run.t

    def finish(self, run: Run, status: str) -> Summary:
        """The summary and the final model."""
        summary = summarise(run, status)
        if self._writes:
            save_model(self.path / MODEL, run.experiment.model, run.state.x)
            write_text(self.path / SUMMARY, sealed_json(summary))
        return summary

    # --- inside ---

    @cached_property
    def _metrics(self) -> Metrics:
        return Metrics(self.path / METRICS, self.sealed)

    @property
    def sealed(self) -> bool:
        """Whether files carry checksums: in a folder of format 1 they do not."""
        return FORMAT in self.environment()

    def given(self) -> dict[str, Any]:
        return dict(self.environment().get("given", {}))

    def settings(self) -> dict[str, Any]:
        """What config.toml says, which nobody may have changed by hand."""
        text = read_text(self.path / CONFIG, LIMIT)
        if self.sealed and not is_sealed_toml(text):
            raise FedamdError(
                f"{self.path / CONFIG} is not as it was written: undo the change; what may change in a run that has "
                f"begun ({', '.join(sorted(CHANGEABLE))}) is given with --set when it is resumed"
            )
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise FedamdError(f"{self.path / CONFIG} is not valid TOML: {error}") from None

    def _keep_changes(self, config: Config) -> None:
        """Write down what was changed for the rest of the run; defaults that this version has on top are not added."""
        before = self.settings()
        changed = {key: value for key, value in config.plain().items() if key in CHANGEABLE and key in before}
        new = {key: value for key, value in config.plain().items() if key in ("target", "target_accuracy")}
        after = before | changed | new
        if after != before:
            text = to_toml(after)
            write_text(self.path / CONFIG, sealed_toml(text) if self.sealed else text)

    def _identity(self, run: Run) -> dict[str, Any]:
        self._bound = self._bound or identity(self.settings(), self.given(), run.experiment)
        return self._bound

    def _go_back(self, run: Run, path: Path) -> None:
        """Put the run back to this checkpoint; where that cannot be, nothing has changed on disk."""
        tensors, facts = checkpoint.load(path)
        try:
            t, x = facts["t"], tensors["state.x"]
            if not isinstance(t, int) or t < 0 or x.shape != run.state.x.shape or x.dtype != run.state.x.dtype:
                raise ValueError("its round, or its x, is not one of this run")
            if "run" in facts:  # format 1 had no such thing
                refuse_other(facts["run"], self._identity(run))
            records, digest = self._metrics.until(t)
            if facts.get("metrics", digest) != digest:
                raise FedamdError(f"{self.path / METRICS} is not what the run had written by then")
            run.restore(tensors, facts)
        except FedamdError as error:
            raise FedamdError(f"{path} cannot be used: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FedamdError(f"{path} is not a checkpoint of the run in {self.path}: {error}") from None
        run.records = records

    def _tell(self, run: Run, refusals: list[str]) -> None:
        """Say what may surprise, and remember whether the newest checkpoint is good."""
        if refusals:
            warnings.warn(
                f"going on from the checkpoint before, t = {run.t}: {refusals[0]}", FedamdWarning, stacklevel=3
            )
        elif (self.path / CHECKPOINT).exists():
            self._newest = run.t
        for difference in differences(self.environment(), run.config):
            warnings.warn(f"{self.path}: {difference}: the last bits may differ", FedamdWarning, stacklevel=3)


def default_folder(config: Config, parent: Path = Path("runs")) -> Path:
    """A name that says what the run is, and that no other run has, also of those that begin at the same moment."""
    return parent / (
        f"{datetime.now():%Y%m%d-%H%M%S}-{config.algorithm.name}-{config.data.name}-seed{config.seed}-{token_hex(3)}"
    )


def refuse_taken(path: Path) -> None:
    """What is in a folder is left alone: a new run needs an empty folder, or one in which no run was ever begun."""
    if path.exists() and not path.is_dir():
        raise FedamdError(f"{path} is a file: choose another --out")
    if not is_text(str(path)):  # safetensors cannot read what would be written there
        raise FedamdError(f"{str(path)!r} is not text in UTF-8: choose another --out")
    if not path.exists() or all(is_debris(inside) or _only_begun(inside) for inside in path.iterdir()):
        return
    resume = f", or continue the run in it with --resume {path}" if (path / CONFIG).exists() else ""
    raise FedamdError(f"{path} is not empty: choose another --out{resume}")


def _only_begun(path: Path) -> bool:
    """Whether this is what a process leaves that was killed while it made the folder."""
    if path.name != ENVIRONMENT or (path.parent / CONFIG).exists():
        return False
    try:
        return FORMAT in read_json(path)
    except FedamdError:
        return False
