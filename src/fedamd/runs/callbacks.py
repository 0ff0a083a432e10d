"""Callbacks: objects that are told what becomes of a run, and may end it early.

A callback is a `Callback` that overrides what it wants to know: `begin`, `recorded` (after every round),
`checkpointed`, `end`. It may call `run.stop("why")`; it changes nothing else. A run that was stopped says why in its
summary, and `fedamd.resume` continues it exactly. Whoever decides by what was measured looks at `run.records`, which a
resumed run has too, so callbacks need no memory of their own.

    fedamd.run(config, callbacks=[EarlyStopping("accuracy", patience=20), Budget(max_gradients=10_000_000)])

In a config, `callbacks = ["tensorboard", "package.module:object"]` names those in `CALLBACKS` or one's own, and the
section [stop] says when to end.
"""

import csv
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedamd.engines.distributed import agreed
from fedamd.errors import FedamdError, at_work
from fedamd.metrics import METRICS, measured_directions
from fedamd.registry import choose, import_object
from fedamd.runs.config import Config
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.session import Sink as Callback
from fedamd.torchrun import is_writer, processes

__all__ = ["CALLBACKS", "Budget", "CSVLog", "Callback", "EarlyStopping", "MLflow", "StopAt", "TensorBoard", "WandB"]


class StopAt(Callback):
    """Ends a run when a metric has reached a target."""

    def __init__(self, target: float, metric: str = "accuracy", higher_is_better: bool | None = None) -> None:
        self.target = target
        self.metric = metric
        self.higher_is_better = _direction(metric, higher_is_better)

    def recorded(self, run: Run, record: Record) -> None:
        value = record.measured(self.metric)
        if record.round < 0 or value is None:
            return
        if value >= self.target if self.higher_is_better else value <= self.target:
            run.stop(f"{self.metric} reached {value:.6g} (target {self.target:g})")


class EarlyStopping(Callback):
    """Ends a run when a metric has not improved, by more than `least`, in its last `patience` evaluations."""

    def __init__(
        self,
        metric: str = "test_loss",
        patience: int = 10,
        *,
        least: float = 0.0,
        higher_is_better: bool | None = None,
    ) -> None:
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
            raise FedamdError(f"patience must be a whole number of at least 1, not {patience!r}")
        self.metric = metric
        self.patience = patience
        self.least = least
        self.higher_is_better = _direction(metric, higher_is_better)

    def recorded(self, run: Run, record: Record) -> None:
        if record.measured(self.metric) is None:
            return
        sign = 1 if self.higher_is_better else -1
        values = [sign * value for one in run.records if (value := one.measured(self.metric)) is not None]
        before, recent = values[: -self.patience], values[-self.patience :]
        if before and max(recent) <= max(before) + self.least:
            best = sign * max(before)
            run.stop(f"{self.metric} has not improved on {best:.6g} in {self.patience} evaluations")


class Budget(Callback):
    """Ends a run after the round in which a budget is used up. Seconds count from the first round in this process."""

    def __init__(
        self,
        *,
        max_gradients: float | None = None,
        max_bits: float | None = None,
        max_simulated_seconds: float | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self._limits = {
            "gradient samples": max_gradients,
            "bits": max_bits,
            "simulated seconds": max_simulated_seconds,
            "seconds": max_seconds,
        }
        for name, limit in self._limits.items():
            if limit is not None and not limit > 0:
                raise FedamdError(f"a budget of {name} must be above 0, not {limit}")
        self._begun = time.monotonic()

    def begin(self, run: Run) -> None:  # noqa: ARG002  the clock is the process's
        self._begun = time.monotonic()

    def recorded(self, run: Run, record: Record) -> None:
        spent = {
            "gradient samples": record.gradient_samples,
            "bits": record.bits,
            "simulated seconds": record.costs.get("simulated_seconds", 0.0),
            "seconds": time.monotonic() - self._begun,
        }
        for name, limit in self._limits.items():
            over = limit is not None and record.round >= 0 and spent[name] >= limit
            if name == "seconds" and limit is not None and processes() > 1:
                over = agreed(over)  # clocks differ, and all processes must stop after the same round
            if over:
                run.stop(f"the budget of {limit:g} {name} is used up")


class CSVLog(Callback):
    """A line of a CSV file for every round: round, loss, metrics, costs, seconds."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if not is_writer():
            return
        row = flat(record)
        fresh = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=list(row))
                if fresh:
                    writer.writeheader()
                writer.writerow(row)
        except OSError as error:
            raise FedamdError(f"cannot write {self.path}: {error.strerror}") from None


class WandB(Callback):
    """Every round to Weights & Biases; `options` go to `wandb.init` (project, name, mode = "offline", …)."""

    def __init__(self, **options: Any) -> None:
        self._wandb = _imported("wandb")
        self._options = options
        self._run: Any = None

    def begin(self, run: Run) -> None:
        if is_writer():
            self._run = self._wandb.init(config=run.config.plain(), **self._options)

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if self._run is not None and record.round >= 0:
            self._run.log(
                {key: value for key, value in flat(record).items() if value is not None}, step=record.round + 1
            )

    def end(self, run: Run, status: str) -> None:  # noqa: ARG002
        if self._run is not None:
            self._run.summary["status"] = status
            self._run.finish()


class MLflow(Callback):
    """Every round to MLflow; where to is MLflow's own setting (`mlflow.set_tracking_uri`)."""

    def __init__(self, **options: Any) -> None:
        self._mlflow = _imported("mlflow")
        self._options = options
        self._active = False

    def begin(self, run: Run) -> None:
        if is_writer():
            self._mlflow.start_run(**self._options)
            self._mlflow.log_params(_words(run.config.plain()))
            self._active = True

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if self._active and record.round >= 0:
            numbers = {key: float(value) for key, value in flat(record).items() if value is not None}
            self._mlflow.log_metrics(numbers, step=record.round + 1)

    def end(self, run: Run, status: str) -> None:  # noqa: ARG002
        if self._active:
            self._mlflow.set_tag("status", status)
            self._mlflow.end_run("FINISHED" if status in ("finished", "stopped") else "KILLED")


class OfEach(Callback):
    """Several runs, each with callbacks of its own."""

    def __init__(self, callbacks: Mapping[Run, Sequence[Callback]]) -> None:
        self._callbacks = {run: [Guarded(one) for one in own] for run, own in callbacks.items()}

    def begin(self, run: Run) -> None:
        for one in self._callbacks[run]:
            one.begin(run)

    def recorded(self, run: Run, record: Record) -> None:
        for one in self._callbacks[run]:
            one.recorded(run, record)

    def checkpointed(self, run: Run) -> None:
        for one in self._callbacks[run]:
            one.checkpointed(run)

    def end(self, run: Run, status: str) -> None:
        for one in self._callbacks[run]:
            one.end(run, status)


class Guarded(Callback):
    """A user's callback: when it raises, the error names it, and the run stays at its last checkpoint."""

    def __init__(self, inner: Callback) -> None:
        if not isinstance(inner, Callback):
            raise FedamdError(f"callbacks: {inner!r} is no Callback: derive its class from fedamd.Callback")
        self._inner = inner

    def begin(self, run: Run) -> None:
        self._told(run, lambda: self._inner.begin(run))

    def recorded(self, run: Run, record: Record) -> None:
        self._told(run, lambda: self._inner.recorded(run, record))

    def checkpointed(self, run: Run) -> None:
        self._told(run, lambda: self._inner.checkpointed(run))

    def end(self, run: Run, status: str) -> None:
        self._told(run, lambda: self._inner.end(run, status))

    def _told(self, run: Run, tell: Callable[[], None]) -> None:
        with at_work(f"the callback {type(self._inner).__name__} failed after {run.t} rounds"):
            tell()


class TensorBoard(Callback):
    """Every round as TensorBoard events in a folder."""

    def __init__(self, folder: Path) -> None:
        from fedamd.report.tensorboard import TensorBoardListener  # the pages' numbers, under the same names

        self._listener = TensorBoardListener(folder)

    def recorded(self, run: Run, record: Record) -> None:
        if is_writer():
            self._listener(run, record)

    def end(self, run: Run, status: str) -> None:  # noqa: ARG002
        self._listener.close()


@dataclass(frozen=True)
class NamedCallback:
    """A callback that a config can name; those that write files do so in the run's folder."""

    description: str
    make: Callable[[Path], Callback]
    needs_folder: bool = False


CALLBACKS: dict[str, NamedCallback] = {
    "csv": NamedCallback("a line of rounds.csv for every round", lambda folder: CSVLog(folder / "rounds.csv"), True),
    "tensorboard": NamedCallback(
        "TensorBoard events, in the folder tensorboard", lambda folder: TensorBoard(folder / "tensorboard"), True
    ),
    "wandb": NamedCallback("Weights & Biases, as its environment variables say", lambda _: WandB()),
    "mlflow": NamedCallback("MLflow, as its environment variables say", lambda _: MLflow()),
}


def configured(config: Config, folder: Path | None = None) -> list[Callback]:
    """The callbacks a config asks for: what [stop] says, those it names, and one's own."""
    stop, found = config.stop, [_named(name, folder) for name in config.callbacks]
    if stop.target is not None:
        name, higher = _watched(config, "accuracy")
        found.append(StopAt(stop.target, name, higher))
    if stop.patience is not None:
        name, higher = _watched(config, "test_loss")
        found.append(EarlyStopping(name, stop.patience, higher_is_better=higher))
    limits = stop.model_dump(include={"max_gradients", "max_bits", "max_simulated_seconds", "max_seconds"})
    if any(limit is not None for limit in limits.values()):
        found.append(Budget(**limits))
    return found


def _watched(config: Config, usual: str) -> tuple[str, bool]:
    """What [stop] looks at, and whether more of it is better; something that is never measured is refused."""
    directions = measured_directions(config.metrics)
    first = next(iter(config.metrics), usual).rpartition(":")[2]
    name = (config.stop.metric or first).rpartition(":")[2]
    return name, choose(directions, name, "stop.metric")


def _named(name: str, folder: Path | None) -> Callback:
    if ":" in name:
        return _own(name)
    one = choose(CALLBACKS, name, "callbacks")
    if one.needs_folder and folder is None:
        raise FedamdError(
            f"callbacks: {name} writes into the run's folder, and this run has none: give it one with out"
        )
    return one.make(folder or Path())


def _own(path: str) -> Callback:
    """The callback at "package.module:object": an object, or a class or function that makes one."""
    found = import_object(path, "callbacks")
    made = found if isinstance(found, Callback) else found() if callable(found) else found
    if not isinstance(made, Callback):
        raise FedamdError(f"callbacks: {path} gives a {type(made).__name__}, not a fedamd.Callback")
    return made


def flat(record: Record) -> dict[str, float | None]:
    """The numbers of a record under one name each; rounds count from 1, the start-up is 0."""
    clients = {
        f"clients_{name}_{key}": found[key]
        for name, found in record.clients.items()
        for key in ("min", "p10", "median", "worst_decile", "max", "variance")
        if key in found
    }
    return {
        "round": record.round + 1,
        "loss": record.loss,
        **record.metrics,
        **record.costs,
        "missing": record.missing,
        "rejected": record.rejected,
        **clients,
        "seconds": record.seconds,
    }


def _direction(metric: str, told: bool | None) -> bool:
    """Whether more is better: as told, as the metric says, and less for anything that is a loss or unknown."""
    if told is not None:
        return told
    return METRICS[metric].higher_is_better if metric in METRICS else False


def _words(plain: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    words: dict[str, Any] = {}
    for key, value in plain.items():
        words |= _words(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return words


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise FedamdError(f"{package} is not installed: pip install {package}") from None
