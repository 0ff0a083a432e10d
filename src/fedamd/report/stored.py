"""Runs as their folders tell them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.metrics import DIRECTIONS, METRICS, Measure, Target, target_for
from fedamd.runs.config import Config
from fedamd.runs.folder import CONFIG, SUMMARY, Folder
from fedamd.runs.given import mended
from fedamd.runs.records import Record
from fedamd.runs.summary import Summary, read_summary, read_target


@dataclass(frozen=True)
class StoredRun:
    """A run that has ended or is still going on."""

    path: Path
    config: Config
    records: list[Record]  # round −1 is the start-up
    environment: dict[str, Any]
    summary: Summary | None  # None while the run goes on

    @property
    def status(self) -> str:
        return str(self.summary["status"]) if self.summary else "running"

    @property
    def measure(self) -> Measure:
        """What it is judged by; while it goes on, a metric of one's own does not say in which direction it is good."""
        if self.summary and "measure" in self.summary:
            return Measure(**self.summary["measure"])
        if self.config.metrics and self.config.metrics[0] in METRICS:
            known = METRICS[self.config.metrics[0]]
            return Measure(known.name, known.higher_is_better)
        classified = any(record.accuracy is not None for record in self.records)
        return Measure() if classified else Measure("test_loss", higher_is_better=False)

    @property
    def target(self) -> Target | None:
        """What it is to reach; while it goes on, a metric of one's own has no known direction."""
        if self.summary:
            return read_target(self.summary)
        asked = self.config.target
        if asked is not None and (not isinstance(asked, dict) or asked.keys() <= DIRECTIONS.keys()):
            return target_for(asked, self.measure, DIRECTIONS)
        return read_target({"target_accuracy": self.config.target_accuracy})

    @property
    def rounds(self) -> list[Record]:
        """The records without the start-up."""
        return [record for record in self.records if record.round >= 0]


def read_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """The runs in these folders; a folder of run folders, such as a comparison, stands for all of them."""
    return [read_run(folder) for path in paths for folder in run_folders(path)]


def read_run(path: Path) -> StoredRun:
    """One run."""
    folder = Folder(path)
    records = folder.metrics()
    summary = read_summary(path / SUMMARY, "status", "rounds") if (path / SUMMARY).exists() else None
    if summary and records and summary["rounds"] < records[-1].round + 1:
        summary = None  # of an interruption: the run has been resumed since
    environment = folder.environment()
    config = mended(folder.config(stored=True), environment.get("given") or {})
    return StoredRun(path, config, records, environment, summary)


def run_folders(path: Path) -> Iterator[Path]:
    """The folder of a run itself, or the folders of runs in it: those of a comparison, or of a sweep."""
    if (path / CONFIG).is_file():
        yield path
        return
    inside = [config.parent for pattern in ("*", "runs/*") for config in path.glob(f"{pattern}/{CONFIG}")]
    if not inside:
        raise FedamdError(f"{path} holds no run: give the folder of a run (it has a {CONFIG}), or a folder of such")
    yield from sorted(inside, key=lambda folder: ((folder / CONFIG).stat().st_mtime_ns, folder.name))
