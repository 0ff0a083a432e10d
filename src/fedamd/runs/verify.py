"""Whether a run's folder is as it was written: every file, every line, every tensor, and whether they belong together.

Nothing is computed and nobody's code is imported; what only the data and the model can tell is found at resume.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedamd.engines.disk_store import DiskStore
from fedamd.errors import FedamdError
from fedamd.files import exclusively
from fedamd.runs import checkpoint
from fedamd.runs.folder import CHECKPOINT, CONFIG, HELD, METRICS, MODEL, PREVIOUS, SUMMARY, Folder
from fedamd.runs.identity import settings_digest
from fedamd.runs.metrics import Metrics
from fedamd.runs.summary import read_summary


@dataclass
class FolderVerdict:
    """What is wrong with a folder, and what of it can be relied upon."""

    path: Path
    wrong: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)  # t of those a run can go on from

    @property
    def fine(self) -> bool:
        return not self.wrong

    @property
    def advice(self) -> str:
        """What can be done."""
        if self.fine:
            return "all is as it was written"
        if self.checkpoints and not any(CONFIG in one or "environment" in one for one in self.wrong):
            return f"it continues from t = {max(self.checkpoints)} with --resume"
        return f"what can be saved: {', '.join(self.good) or 'nothing'}"


def verify(path: Path) -> FolderVerdict:
    """Look at everything in the folder of a run that nobody is at work in."""
    folder = Folder.open(path)
    verdict = FolderVerdict(path)
    with exclusively(path):
        sealed = _try(verdict, "environment.json", lambda: folder.sealed)
        settings = _try(verdict, CONFIG, folder.settings)
        _try(verdict, CONFIG, lambda: folder.config(stored=True), tell=False)
        metrics = Metrics(path / METRICS, bool(sealed))
        records = _try(verdict, METRICS, metrics.read)
        marks = _marks(verdict, path / HELD)
        for name in (CHECKPOINT, PREVIOUS):
            if (path / name).exists():
                t = _try(verdict, name, lambda name=name: _checkpoint(path / name, settings, metrics, marks))  # type: ignore[misc]
                verdict.checkpoints += [] if t is None else [t]
        if (path / MODEL).exists():
            _try(verdict, MODEL, lambda: checkpoint.load(path / MODEL))
        if (path / SUMMARY).exists():
            _try(verdict, SUMMARY, lambda: _summary(path / SUMMARY, len(records or []) - 1))
        verdict.wrong += _missing(path, verdict.checkpoints, bool(sealed))
    return verdict


def _try(verdict: FolderVerdict, name: str, look: Callable[[], Any], tell: bool = True) -> Any:
    try:
        found = look()
    except FedamdError as error:
        if str(error) not in verdict.wrong:
            verdict.wrong.append(str(error))
        return None
    if tell:
        verdict.good.append(name)
    return found


def _marks(verdict: FolderVerdict, path: Path) -> list[int] | None:
    """The moments that what clients hold can go back to; None where it is in the checkpoints."""
    if not path.exists():
        return None

    def look() -> list[int]:
        store = DiskStore(path)
        store.check()
        return store.marks()

    return _try(verdict, HELD, look) or []


def _checkpoint(path: Path, settings: dict[str, Any] | None, metrics: Metrics, marks: list[int] | None) -> int:
    _, facts = checkpoint.load(path)
    t = facts.get("t")
    if not isinstance(t, int) or t < 0:
        raise FedamdError(f"{path} is not a checkpoint of a run")
    bound = facts.get("run")
    if isinstance(bound, dict) and settings is not None and bound.get("config") != settings_digest(settings):
        raise FedamdError(f"{path} belongs to a run with other settings than {CONFIG} beside it")
    _, digest = metrics.until(t)
    if facts.get("metrics", digest) != digest:
        raise FedamdError(f"{path} belongs to a run with other metrics than {METRICS} beside it")
    if marks is not None and bound is not None and t not in marks:
        raise FedamdError(f"{path} is of t = {t}, and {HELD} beside it was never there")
    return t


def _missing(path: Path, checkpoints: list[int], two: bool) -> list[str]:
    """What must be there because something else is; format 1 did not have `two` checkpoints."""
    ended = any((path / name).exists() for name in (MODEL, SUMMARY))
    begun = checkpoints or ended or (path / METRICS).exists()
    needed = {
        METRICS: begun,
        CHECKPOINT: checkpoints or ended,
        PREVIOUS: two and max(checkpoints, default=0) > 0,
        MODEL: (path / SUMMARY).exists(),
        SUMMARY: (path / MODEL).exists(),
    }
    return [f"{path / name} is missing" for name, must in needed.items() if must and not (path / name).exists()]


def _summary(path: Path, rounds: int) -> None:
    told = read_summary(path, "status", "rounds")["rounds"]
    if told > rounds:
        raise FedamdError(f"{path} tells of {told} rounds, and {METRICS} beside it of {rounds}")
