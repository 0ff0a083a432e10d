"""The planner joins rounds, costs and conditions, and gives reasons instead of numbers."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedamd.errors import FedamdError
from fedamd.theory import PlanEntry, Problem, Speeds, constant, plan
from fedamd.theory.planner import COSTS

SPEEDS = Speeds(bandwidth=1e6, compute=1e3)


def entry(problem: Problem, method: str) -> PlanEntry:
    return next(entry for entry in plan(problem).entries if entry.method == method)


def test_numbers_of_one_method(make_problem: Callable[..., Problem]) -> None:
    """FedAvg: K/(Aε²) + 1/ε with 1/ε = 300: 45 300 rounds of 20·40 samples and 40 vectors of 32 000 bits.

    A round takes 40 samples at 1000/s and 64 000 bits at 10⁶/s.
    """
    fedavg = next(entry for entry in plan(make_problem(), "seconds", SPEEDS).entries if entry.method == "fedavg")
    assert fedavg.rounds == 45_300
    assert fedavg.gradients == 45_300 * 800
    assert fedavg.bits == 45_300 * 40 * 32_000
    assert fedavg.seconds == pytest.approx(45_300 * (0.04 + 0.064))
    assert (fedavg.start_up_gradients, fedavg.start_up_bits) == (0, 0)
    assert fedavg.proved is None


def test_settings_and_proof_of_fedamd(make_problem: Callable[..., Problem]) -> None:
    problem = make_problem()
    found = entry(problem, "fedamd-constant")
    assert found.rounds == 1500
    assert found.settings == {"p": pytest.approx(0.887, abs=1e-3), "b": 25, **constant.rates(problem)._asdict()} | {
        "eta_s as proved": constant.rates(replace(problem, version="proved")).eta_s
    }
    assert found.proved == constant.proved(replace(problem, version="proved"))
    assert found.printed == constant.proved(problem)
    assert entry(problem, "fedamd-sequential").settings["tau"] == 2


@given(epsilon=st.floats(1e-4, 1), mu=st.none() | st.floats(0.05, 2), cost=st.sampled_from(COSTS))
def test_sorted_by_what_is_paid(
    epsilon: float, mu: float | None, cost: str, make_problem: Callable[..., Problem]
) -> None:
    entries = plan(make_problem(A=100, epsilon=epsilon, mu=mu), cost, SPEEDS).entries
    assert len(entries) == 7
    prices = [getattr(entry, cost) for entry in entries if not entry.violations]
    assert prices == sorted(prices)
    assert all(entry.violations for entry in entries[len(prices) :])


@pytest.mark.parametrize(
    ("changes", "method", "says"),
    [
        ({}, "minibatch-sgd", "needs all M = 100 clients"),
        ({}, "vr-marina", "needs all M = 100 clients"),
        ({"K": 1}, "fedamd-constant", "K = 1 is below"),
        ({"b_small": 600}, "fedamd-constant", "needs b' < b"),
        ({"b": 4}, "fedamd-sequential", "needs b' < b"),
        ({"b": 24}, "fedamd-sequential", "needs b = 25"),
        ({"mu": 0.1}, "fedamd-sequential", "no rate"),
        ({"mu": 0.1, "A": 100}, "bvr-l-sgd", "no rate"),
        ({"mu": 0.002}, "scaffold", "void"),
    ],
)
def test_reasons_instead_of_numbers(
    changes: dict[str, float], method: str, says: str, make_problem: Callable[..., Problem]
) -> None:
    found = entry(make_problem(**changes), method)
    assert says in " ".join(found.violations)
    assert found.rounds is found.gradients is found.bits is found.seconds is found.proved is None
    assert found.settings == {}


def test_bits_need_a_model_size(make_problem: Callable[..., Problem]) -> None:
    assert entry(make_problem(d=None), "fedavg").bits is None
    for cost in ("bits", "seconds"):
        with pytest.raises(FedamdError, match="give d"):
            plan(make_problem(d=None), cost, SPEEDS)
    with pytest.raises(FedamdError, match="give bandwidth"):
        plan(make_problem(), "seconds")
    with pytest.raises(FedamdError, match='"euros" is not known'):
        plan(make_problem(), "euros")


def test_json_has_everything(make_problem: Callable[..., Problem]) -> None:
    told = json.loads(json.dumps(plan(make_problem()).to_dict(), allow_nan=False))
    assert told["problem"]["M"] == 100
    assert told["entries"][-1]["violations"] == ["needs all M = 100 clients, the cohort is A = 20"]
    proved = next(entry["proved"] for entry in told["entries"] if entry["method"] == "fedamd-constant")
    assert proved.keys() == {"b", "rounds"}
