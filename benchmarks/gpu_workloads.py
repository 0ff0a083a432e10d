"""Published workloads on the device: all of BlazeFL's, some rounds of pfl's, as `fedamd bench workloads` runs them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pictures import cifar_10
from timed_rounds import Bench, Row

from fedamd.data import load
from fedamd.workloads import WORKLOADS, time_workload

TAKEN = {"blazefl": ("blazefl", 5), "blazefl, again in this process": ("blazefl", 5), "pfl": ("pfl", 20)}


def measurements(bench: Bench) -> dict[str, Callable[[], Row]]:
    """Each with its first round, which may have to compile, and the mean of the others."""

    def one(name: str, rounds: int) -> Row:
        work = WORKLOADS[name]
        if bench.tiny:
            work = replace(work, model="lenet5", clients=20, samples=10, cohort=3, batch=3, epochs=1)
        found = time_workload(work, load(**cifar_10(bench.tiny)), rounds, bench.device)
        return {key: found[key] for key in ("data", "oracle", "rounds", "first_round", "each_round", "seconds")}

    return {title: partial(one, name, 2 if bench.tiny else rounds) for title, (name, rounds) in TAKEN.items()}
