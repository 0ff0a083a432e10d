"""Rounds of runs in lockstep, timed one by one as a user gets them: a config, the engine it asks for, a session."""

import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fedamd.runs.api import engine_for
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.session import Session, Sink

Settings = Mapping[str, Any]
Row = dict[str, Any]
WARM_UP = 2  # rounds in which every role is played for the first time, and kernels may have to be compiled
FEW = 10  # so many rounds are told one by one


@dataclass(frozen=True)
class Bench:
    """Where measurements are made, how large they are, and when they have to end (by `time.perf_counter`)."""

    device: str
    tiny: bool
    deadline: float

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.deadline

    def runs(self, data: Settings, settings: Sequence[Settings], rounds: int, evaluate: bool = True) -> list[Run]:
        """A run for each of the settings, evaluated after every one of these rounds, or after none.

        The last round of a run is always evaluated, so each has one more, which is not played.
        """
        common = {"data": data, "device": self.device, "rounds": rounds + 1}
        common["evaluate_every"] = 1 if evaluate else rounds + 1
        return [Run(build_experiment(load_config({**common, **one}))) for one in settings]

    def timed(self, runs: Sequence[Run], *sinks: Sink) -> Row:
        """All rounds of these runs with an engine of their own, or as many as there is time for.

        Seconds of a round are those of all runs together.
        """
        reset_memory(self.device)
        compiled, watch = compiled_kernels(), Stopwatch(self.device)
        engine = engine_for(runs[0].experiment)
        watch.chosen = watch.now()

        def enough() -> bool:
            return self.over or max(run.t for run in runs) >= runs[0].config.rounds - 1

        Session(runs, engine, [watch, *sinks], interrupted=enough).run()
        if not max(run.t for run in runs):
            return {"left out": "the time was over before the first round"}
        row = watch.row() | {"data": runs[0].experiment.dataset.name, "kernels_compiled": compiled_kernels() - compiled}
        models = [run.state.x for run in runs]
        engine.evaluate(models)  # the first one may have to prepare something
        begun = watch.now()
        scores = engine.evaluate(models)
        row |= {"evaluation_s": watch.now() - begun, "accuracies": [accuracy for _, accuracy in scores]}
        return row | {"diverged": sum(run.status == "diverged" for run in runs)}


class Stopwatch(Sink):
    """When each round of some runs in lockstep was over, with how many CUDA graphs and how much device memory."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._ends: dict[int, float] = {}
        self._extras: dict[int, Mapping[str, float]] = {}
        self._memory: Row = {}
        self._made = self.chosen = self.now()

    def now(self) -> float:
        """With nothing left to be done on the device."""
        if self._device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002  the last run's record ends the round
        self._ends[record.round], self._extras[record.round] = self.now(), record.extras
        if record.round < 0 and self._device == "cuda":
            self._memory["gib_before_rounds"] = peak_gib()
            torch.cuda.reset_peak_memory_stats()

    def row(self) -> Row:
        """Seconds of the start and of the rounds; memory is what PyTorch had allocated at most, data included."""
        if self._device == "cuda":
            self._memory |= {"gib": peak_gib(), "gib_reserved": torch.cuda.max_memory_reserved() / 2**30}
        seconds = [self._ends[t] - self._ends[t - 1] for t in range(len(self._ends) - 1)]
        captures = [int(self._extras[t].get("captures", 0)) for t in range(-1, len(seconds))]
        return (
            {
                "engine_s": self.chosen - self._made,  # choosing it: an oracle is compared with autograd first
                "start_up_s": self._ends[-1] - self.chosen,  # with an evaluation
                "rounds": len(seconds),
                "rounds_s": seconds[:FEW],
                "new_captures": [after - before for before, after in pairwise(captures)][:FEW],
                "median_round_s": median(seconds[WARM_UP:]) if len(seconds) > WARM_UP else None,
                "other_rounds_s": sum(seconds[WARM_UP:]),
                "graphs": int(self._extras[len(seconds) - 1].get("graphs", 0)),
                "captures": captures[-1],
            }
            | self._memory
        )


def reset_memory(device: str) -> None:
    """Give back what earlier measurements held, and count the peak anew."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    return torch.cuda.max_memory_allocated() / 2**30


def compiled_kernels() -> int:
    """How many kernels Triton has in its cache on disk: where a first round adds some, it has waited for a compiler."""
    cache = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    return sum(1 for _ in cache.iterdir()) if cache.is_dir() else 0
