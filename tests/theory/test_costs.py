"""Costs of a round, against the counts that reproduce the paper's Table 2 and by hand."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedamd.errors import FedamdError
from fedamd.theory import costs
from fedamd.theory.costs import RoundCost, Speeds
from fedamd.theory.problem import Problem

LENET = 44_426
PAPER = {"K": 10, "b_small": 64, "n": 600, "b": 600, "d": LENET}


@pytest.mark.parametrize(
    ("cost", "changes", "rounds", "gradients", "communication"),
    [
        (costs.fedavg, {"A": 20}, 318, 40.8, 566.9),
        (costs.fedavg, {"A": 40}, 305, 78.3, 1087.5),
        (costs.scaffold, {"A": 100}, 391, 250.9, 6966.0),
        (costs.bvr_l_sgd, {"A": 20}, 310, 101.9, 853.9),
        (costs.bvr_l_sgd, {"A": 100}, 291, 463.8, 3908.7),
        (costs.fedamd_constant, {"A": 20}, 259, 35.5, 489.8),
        (costs.fedamd_constant, {"A": 40}, 209, 55.0, 776.3),
        (costs.fedamd_constant, {"A": 100, "p": 0.9}, 229, 153.9, 2147.8),
        (costs.fedamd_sequential, {"A": 20}, 213, 40.2, 475.3),
        (costs.fedamd_sequential, {"A": 40, "tau": 3}, 190, 80.4, 904.5),
    ],
)
def test_table_2_of_the_paper(
    cost: Callable[[Problem], RoundCost],
    changes: dict[str, float],
    rounds: int,
    gradients: float,
    communication: float,
    make_problem: Callable[..., Problem],
) -> None:
    """Its units: 10⁵ samples, and 10⁶ values moved."""
    per_round = cost(make_problem(**PAPER | changes))
    assert rounds * per_round.samples / 1e5 == pytest.approx(gradients, rel=0.02)
    assert rounds * per_round.vectors * LENET / 1e6 == pytest.approx(communication, rel=0.02)


def test_full_participation_methods(make_problem: Callable[..., Problem]) -> None:
    """M = 100, K·b' = 640; VR-MARINA with b = 64·3: p = 1/4, 100·(192/4 + 3·128/4) samples."""
    sgd = costs.minibatch_sgd(make_problem(**PAPER))
    assert (sgd.samples, sgd.vectors) == (64_000, 200)
    marina = costs.vr_marina(make_problem(**PAPER | {"b": 192}))
    assert (marina.samples, marina.vectors) == pytest.approx((14_400, 200))


@pytest.mark.parametrize(("b", "period"), [(600, 2), (640, 2), (641, 3), (65, 2), (1280, 3)])
def test_bvr_l_sgd_synchronises_every(b: int, period: int, make_problem: Callable[..., Problem]) -> None:
    """⌈1 + b/640⌉."""
    assert costs.bvr_l_sgd_period(make_problem(**PAPER | {"b": b, "n": None})) == period


def test_start_up(make_problem: Callable[..., Problem]) -> None:
    start_up = costs.large_batches_everywhere(make_problem(**PAPER))
    assert (start_up.samples, start_up.vectors) == (60_000, 200)
    assert costs.no_start_up(make_problem()) == costs.NOTHING


def test_a_round_lasts_as_long_as_its_slowest_client(make_problem: Callable[..., Problem]) -> None:
    """d = 1000: 96 000 bits and 80 samples for a miner (1 s + 8 s), 64 000 and 30 for an anchor (⅔ s + 3 s); p = 1/4.

    A = 2 has both with probability 3/8, and then waits for the miner.
    """
    speeds = Speeds(bandwidth=96_000, compute=10)
    anchor, miner = 2 / 3 + 3, 1 + 8
    one = costs.fedamd_constant(make_problem(A=1, p=0.25, b=30)).seconds(speeds, 1000)
    assert one == pytest.approx(anchor / 4 + miner * 3 / 4)
    two = costs.fedamd_constant(make_problem(A=2, p=0.25, b=30)).seconds(speeds, 1000)
    assert two == pytest.approx(anchor / 16 + miner * 15 / 16)
    sequential = costs.fedamd_sequential(make_problem(tau=3, b=30)).seconds(speeds, 1000)
    assert sequential == pytest.approx((anchor + 2 * miner) / 3)


@given(p=st.floats(0.001, 0.999), A=st.integers(1, 100))
def test_shares_of_rounds_sum_to_one(p: float, A: int, make_problem: Callable[..., Problem]) -> None:
    stages = costs.fedamd_constant(make_problem(A=A, p=p)).stages
    assert sum(stage.share for stage in stages) == pytest.approx(1)


@pytest.mark.parametrize(("bandwidth", "compute"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_impossible_speeds(bandwidth: float, compute: float) -> None:
    with pytest.raises(FedamdError, match="positive"):
        Speeds(bandwidth, compute)
