"""BVR-L-SGD: two rounds by hand, FedAMD as its twin, its period, costs, and missing replies."""

import torch

from fedamd.algorithms import BVRLSGD, FedAMD
from fedamd.algorithms.base import Federation, Turn
from support import PAIR, client_gradient, close, held, quadratic_problem, simulate, trajectory, witness


def test_two_rounds_by_hand():
    """η_l = 0.1, K = 2, T = 2, curvatures h = (1, 3); with seed 0 client 0 walks in both rounds.

    Round 0: v = ∇F(0) = 1. Client 0: x = −0.1; g = 1 − 0.1 = 0.9; x_1 = −0.19.
    Round 1: v_0 = −1 − 0.19 = −1.19, v_1 = 3 − 3·0.19 = 2.43, v = 0.62.
             Client 0: −0.19 − 0.062 = −0.252; g = 0.62 − 0.062 = 0.558; x_2 = −0.252 − 0.0558 = −0.3078.
    """
    pair = Federation(2, 2, (1, 1))
    assert [Turn(t, 0, pair).choose((0, 1)) for t in (0, 1)] == [0, 0]
    assert close(trajectory(BVRLSGD(eta_l=0.1, steps=2, period=2), PAIR, rounds=2, seed=0), [-0.19, -0.3078])


def test_two_rounds_of_the_mean_by_hand():
    """As above, with client 1 walking too: x = −0.1; g = 1 − 0.3 = 0.7; −0.17. The mean is x_1 = −0.18.
    Round 1: v = 2·(−0.18) + 1 = 0.64; client 0: −0.244, −0.3016; client 1: −0.244, −0.2888; x_2 = −0.2952."""
    method = BVRLSGD(eta_l=0.1, steps=2, period=2, synchronise="mean")
    assert close(trajectory(method, PAIR, rounds=2), [-0.18, -0.2952])


def test_is_fedamd_with_everyone(crowd):
    """§3.3 of the paper: A = M and p = 1, 0, 1, 0, …: two of FedAMD's rounds are one with a large batch at its
    start."""
    fedamd = trajectory(FedAMD(eta_l=0.05, steps=4, small_batch="full", tau=2), crowd, rounds=12)
    method = BVRLSGD(eta_l=0.05, steps=4, small_batch="full", period=1, synchronise="mean")
    assert close(fedamd[1::2], trajectory(method, crowd, rounds=6))


def test_one_walker_is_enough_where_curvatures_agree():
    """Without second-order heterogeneity every client walks the same way, so the original, which keeps the result of
    one random client, is FedAMD with everyone too."""
    alike = quadratic_problem([(1.0, 1.0)], [(-2.0, 1.0)], [(5.0, 1.0)])
    fedamd = trajectory(FedAMD(eta_l=0.05, steps=4, tau=2), alike, rounds=12)
    method = BVRLSGD(eta_l=0.05, steps=4, period=1, participation="everyone")
    assert close(fedamd[1::2], trajectory(method, alike, rounds=6, cohort=1))


def test_period():
    """⌈1 + n/(K·b')⌉: n = 600, K = 10, b' = 64 gives the 2 of the paper's experiments; K = 5 gives 3."""
    federation = Federation(2, 2, (500, 700))
    assert BVRLSGD(steps=10, small_batch=64).rounds_of_a_period(federation) == 2
    assert BVRLSGD(steps=5, small_batch=64).rounds_of_a_period(federation) == 3
    assert BVRLSGD(steps=1, small_batch="full").rounds_of_a_period(federation) == 2
    assert BVRLSGD(period=7).rounds_of_a_period(federation) == 7


def test_members_change_with_the_period(crowd):
    """S is the cohort of round 0 for rounds 0, 1, 2, and the cohort of round 3 for the next three."""
    _, rounds = witness(BVRLSGD(period=3), crowd, rounds=6, cohort=2)
    cohorts = [Turn(t, 0, Federation(5, 2, (2, 1, 3, 4, 2))).cohort for t in (0, 3)]
    assert cohorts[0] != cohorts[1]
    assert [seen.replies["tracker"].clients for seen in rounds] == [cohorts[0]] * 3 + [cohorts[1]] * 3
    walkers = [seen.replies["walker"].clients for seen in rounds]
    assert all(set(one) < set(seen.replies["tracker"].clients) for one, seen in zip(walkers, rounds, strict=True))
    assert len(set(walkers[:3])) == len(set(walkers[3:])) == 2  # either of the two in each period


def test_the_original_asks_everyone(crowd):
    _, rounds = witness(BVRLSGD(period=2, participation="everyone"), crowd, rounds=2, cohort=2)
    assert all(seen.replies["tracker"].clients == (0, 1, 2, 3, 4) for seen in rounds)


def test_costs():
    """Over a period of two rounds: A·b + 2·(A·2·K·b' + 2·K·b') gradients. First round: down x, up v_i, down x, up
    v_i, down v, up Δ: 4A + 2 vectors; second round 2A + 2: on average 3A + 2. Here A = 2, b = b' = 1, K = 3."""
    run = simulate(BVRLSGD(steps=3, period=2), PAIR, rounds=2)
    assert run.ledger.gradient_samples == 2 + 2 * (2 * 2 * 3 + 2 * 3)
    assert run.ledger.bits_up + run.ledger.bits_down == 64 * 2 * (3 * 2 + 2)
    assert run.start_up.gradient_samples == 0


def test_missing_replies(crowd):
    """Invariants, with full batches, where estimates are exact: v_i = ∇F_i at the point that client i holds, however
    many rounds it missed; only clients that replied to the period's survey are of S; x moves by the walker's Δ or
    not at all."""
    method = BVRLSGD(eta_l=0.05, steps=2, small_batch="full", period=4)
    run, rounds = witness(method, crowd, rounds=40, cohort=3, failure_rate=0.3)
    points, estimates = held(run, "x"), held(run, "v")
    for client in range(5):
        assert close(estimates[client], client_gradient(crowd, client, points[client]))
    surveyed, missed = set(), 0
    for seen in rounds:
        if "surveyor" in seen.replies:
            surveyed = set(seen.replies["surveyor"].clients)
        assert surveyed == set(seen.after.members.tolist())
        trackers = seen.replies["tracker"]
        assert set(trackers.clients) <= surveyed
        missed += len(surveyed) - len(trackers)
        if len(trackers):
            wanted = torch.stack([client_gradient(crowd, i, seen.before.x) for i in trackers.clients])
            assert close(trackers.v, wanted)
        walker = seen.replies.get("walker")
        assert close(seen.before.x - seen.after.x, walker.delta[0] if walker else [0.0])
    assert missed


def test_a_period_without_members_starts_again():
    """Nobody replied to the survey (rate 0.9): the next round asks a new cohort instead of waiting for the period's
    end."""
    _, rounds = witness(BVRLSGD(period=50), PAIR, rounds=40, seed=1, failure_rate=0.9)
    first = next(seen.t for seen in rounds if len(seen.replies["surveyor"]))
    assert first > 0
    assert all("surveyor" in seen.replies for seen in rounds[: first + 1])
    assert all("surveyor" not in seen.replies for seen in rounds[first + 1 :])
