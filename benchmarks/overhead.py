"""What of a CPU round is not gradients: `python benchmarks/overhead.py [--rounds 60] [--model lenet5]`.

Runs W (see docs/performance.md) on the native path with every call of the oracle timed in its thread, and prints for
each method the median share of a round (with evaluation) that goes to
  the loop    before the first gradient and after the last: cohort, batches, stacks, replies, server, records
  arithmetic  between a worker's gradients: the algorithm's own steps
  waiting     at the end, for the slower of the workers
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from fedamd.algorithms.base import Algorithm
from fedamd.bench import METHODS, BenchedModel, Training
from fedamd.engines import make_engine
from fedamd.oracles.native.oracle import NativeOracle

WARM_UP = 3


@dataclass(frozen=True)
class Call:
    """One call of the oracle."""

    function: str
    thread: int
    begun: float
    ended: float


@contextmanager
def calls_timed() -> Iterator[list[Call]]:
    """All calls of native oracles while this is held."""
    calls: list[Call] = []
    originals = {name: getattr(NativeOracle, name) for name in ("gradient", "corrected", "descend", "loss", "evaluate")}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begun = time.perf_counter()
            result = function(*args)
            calls.append(Call(name, threading.get_ident(), begun, time.perf_counter()))
            return result

        return call

    for name, function in originals.items():
        setattr(NativeOracle, name, timed(name, function))
    try:
        yield calls
    finally:
        for name, function in originals.items():
            setattr(NativeOracle, name, function)


def shares(calls: list[Call]) -> dict[str, float]:
    """Of a round: the calls since the evaluation before it, that one first and its own last."""
    before, *work, evaluation = sorted(calls, key=lambda call: call.begun)
    begun, ended = work[0].begun, max(call.ended for call in work)
    last = {thread: max(call.ended for call in work if call.thread == thread) for thread in {c.thread for c in work}}
    waiting = sum(ended - end for end in last.values()) / len(last)
    busy = sum(call.ended - call.begun for call in work) / len(last)
    whole = evaluation.ended - before.ended
    return {
        "the loop": (begun - before.ended + evaluation.begun - ended) / whole,
        "arithmetic": (ended - begun - busy - waiting) / whole,
        "waiting": waiting / whole,
    }


def measure(work: BenchedModel, algorithm: Algorithm, rounds: int) -> dict[str, float]:
    """The median shares over the rounds, the first few left out."""
    training = Training(work, make_engine("vector", "native", work.model, work.dataset), algorithm)
    with calls_timed() as calls:
        for _ in range(0, rounds + WARM_UP, Training.ROUNDS):
            training()
    calls.sort(key=lambda call: call.ended)
    ends = [index for index, call in enumerate(calls) if call.function == "evaluate"][WARM_UP:]
    found = [shares(calls[start : end + 1]) for start, end in pairwise(ends)]
    return {part: median(one[part] for one in found) for part in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description="What of a CPU round is not gradients.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--model", choices=("lenet5", "mlp"), default="lenet5")
    options = parser.parse_args()
    work = BenchedModel.of(options.model)
    for name, algorithm in METHODS.items():
        found = measure(work, algorithm, options.rounds)
        print(f"{name:22s}" + "".join(f"{part} {100 * share:4.1f} %   " for part, share in found.items()))


if __name__ == "__main__":
    main()
