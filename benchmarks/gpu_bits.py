"""How exactly runs of W repeat: digests of models alone and in grids, what they cost, the distance from the loop."""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

from gpu_w import METHODS, RATES, settings
from pictures import fashion_mnist
from timed_rounds import WARM_UP, Bench, Row

from fedamd.oracles.stacked import products
from fedamd.runs.records import Record
from fedamd.runs.run import Run
from fedamd.runs.session import Sink

GRIDS = (1, 3, 18)  # how many runs are in lockstep
ROUNDS = 20
TURNS = 5


class Digests(Sink):
    """SHA-256 of every run's model after each round."""

    def __init__(self, runs: list[Run]) -> None:
        self._index = {id(run): index for index, run in enumerate(runs)}
        self.of: dict[int, list[str]] = defaultdict(list)

    def recorded(self, run: Run, record: Record) -> None:  # noqa: ARG002
        self.of[self._index[id(run)]].append(hashlib.sha256(run.state.x.cpu().numpy().tobytes()).hexdigest())


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """FedAMD p = 0.5 alone and in grids; two methods beside the loop engine with automatic differentiation."""
    data = fashion_mnist(bench.tiny)
    rounds, grids = (3, (1, 2, 3)) if bench.tiny else (ROUNDS, GRIDS)

    def digests(count: int) -> Digests:
        chosen = [
            settings({"name": "fedamd", "p": 0.5, "eta_l": eta_l, "eta_s": eta_s}, bench.tiny, seed=seed)
            for seed, (eta_l, eta_s) in enumerate(RATES[:count])
        ]
        runs = bench.runs(data, chosen, rounds, evaluate=False)
        kept = Digests(runs)
        bench.timed(runs, kept)
        return kept

    def same_bits() -> Row:
        """The rounds after which every run has the same model in all grids that it is part of."""
        found = [digests(count).of for count in grids]
        shared = [[grid[run] for grid in found if run in grid] for run in range(grids[-2])]
        played = min(len(one) for grids_of_a_run in shared for one in grids_of_a_run)
        equal = [all(len({one[t] for one in of_a_run}) == 1 for of_a_run in shared) for t in range(1, played)]
        return {"grids": list(grids), "rounds": played - 1, "equal": sum(equal), "last": shared[0][0][-1][:16]}

    def round_of(method: str) -> float:
        """The mean, since roles may take turns."""
        runs = bench.runs(data, [settings(METHODS[method], bench.tiny)], 2 * rounds, evaluate=False)
        row = bench.timed(runs)
        return float(row["other_rounds_s"]) / (row["rounds"] - WARM_UP)

    def cost(method: str) -> Row:
        """A round with own products over one with cuBLAS's, whose bits depend on the stack: the least of some turns."""
        own, library = [], []
        for _ in range(2 if bench.tiny else TURNS):
            own.append(round_of(method))
            with patch.object(products, "has_kernels", return_value=False):
                library.append(round_of(method))
        return {"round_s": min(own), "round_by_library_s": min(library), "times": min(own) / min(library)}

    def parity(name: str) -> Row:
        """Relative distance after two rounds from a common start."""
        ends = []
        for how in ({}, {"engine": "loop", "oracle": "autograd"}):
            (run,) = bench.runs(data, [settings(METHODS[name], bench.tiny, **how)], 2, evaluate=False)
            bench.timed([run])
            if run.t < 2:
                return {"left out": "the time was over"}
            ends.append(run.state.x)
        fast, plain = ends
        return {"distance": ((fast - plain).norm() / (plain - run.experiment.x0).norm()).item()}

    return {
        f"FedAMD p = 0.5, {', '.join(map(str, grids))} runs": same_bits,
        **{f"{name}, own products and cuBLAS's": partial(cost, name) for name in ("FedAMD (sequential)", "FedAvg")},
        **{f"{name}, from loop and autograd": partial(parity, name) for name in ("FedAMD (sequential)", "FedAvg")},
    }
