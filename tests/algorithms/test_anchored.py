"""Anchored momentum: the members of the family that have names, exactly; anchors by hand; and its costs."""

import pytest
import torch

from fedamd.algorithms import Anchored, FedACG, FedAvg, FedCM, FedVARP, Scaffold, ScaffoldM
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES, client_gradient, close, held, simulate, trajectory, witness

STEPS = {"eta_l": 0.1, "steps": 3, "small_batch": 1}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"a": 1.0, "s": 0.0, "reduced": False}, FedAvg(**STEPS)),
        ({"a": 1.0, "s": 0.0, "reduced": False, "server": "momentum"}, FedAvg(**STEPS, server="momentum")),
        ({"a": 1.0, "s": 0.0}, FedVARP(**STEPS)),
        ({"a": 0.3, "s": 0.0, "reduced": False}, FedCM(**STEPS, alpha=0.3)),
        (
            {"eta_l": 0.2, "a": 0.5, "s": 0.0, "reduced": False, "ahead": True},
            FedACG(**STEPS, lookahead=0.5, beta=0.0),
        ),
        ({"a": 1.0, "s": 1.0, "reduced": False}, Scaffold(**STEPS, start_up="zeros")),
        ({"a": 1.0, "s": 1.0}, Scaffold(**STEPS, start_up="zeros")),
        ({"a": 0.3, "s": 1.0, "reduced": False}, ScaffoldM(**STEPS, alpha=0.3, start_up="zeros")),
        ({"a": 0.3, "s": 1.0}, ScaffoldM(**STEPS, alpha=0.3, start_up="zeros")),
    ],
    ids=[
        "fedavg",
        "fedavgm",
        "fedvarp",
        "fedcm",
        "fedacg",
        "scaffold",
        "scaffold in fewer bits",
        "scaffold-m",
        "in fewer bits",
    ],
)
def test_members_with_names(ours, theirs, crowd):
    """On random batches and cohorts, with failures."""
    how = {"rounds": 12, "cohort": 3, "failure_rate": 0.2}
    assert close(
        trajectory(Anchored(**{**STEPS, "ahead": False, **ours}), crowd, **how), trajectory(theirs, crowd, **how), 1e-11
    )


def test_scaffold_over_the_cache_of_fedamd(crowd):
    """a = 1, s = 1, refresh by anchors: every miner goes along ∇f_i − c_i + c, and c_i is the gradient at the x of the
    last round in which client i was an anchor."""
    method = Anchored(eta_l=0.1, steps=1, small_batch="full", a=1.0, s=1.0, refresh="anchors", p=0.4, ahead=False)
    _, rounds = witness(method, crowd, rounds=30, cohort=4)
    table = torch.zeros(5, 1, dtype=torch.float64)
    for seen in rounds:
        miners, anchors = seen.replies["miner"], seen.replies["anchor"]
        if len(miners):
            steps = [client_gradient(crowd, i, seen.before.x) - table[i] + table.mean(0) for i in miners.clients]
            assert close(seen.before.x - seen.after.x, 0.1 * torch.stack(steps).mean(0))
        for i in anchors.clients:
            table[i] = client_gradient(crowd, i, seen.before.x)
        assert close(seen.after.c, table.mean(0))


@pytest.mark.parametrize("s", [0.0, 0.4])
def test_over_the_anchors_cache_the_step_is_reduced_whatever_s_is(s, crowd):
    """K = 1, a = 1: a reduced step goes along the mean of ∇f_i − c_i, plus c, for every s."""
    method = Anchored(eta_l=0.1, steps=1, small_batch="full", a=1.0, s=s, refresh="anchors", p=0.4, ahead=False)
    full = Anchored(eta_l=0.1, steps=1, small_batch="full", a=1.0, s=1.0, refresh="anchors", p=0.4, ahead=False)
    assert close(trajectory(method, crowd, 30, cohort=4), trajectory(full, crowd, 30, cohort=4), 1e-10)


def test_a_round_of_anchors_alone_by_hand():
    """η_l·K = 0.2, a = 0.5, both are anchors: c = ∇F(0) = 1, and the reduced step goes along half of it: x_1 = −0.1."""
    method = Anchored(eta_l=0.1, steps=2, a=0.5, refresh="both", p=0.999)
    run, (seen,) = witness(method, PAIR, rounds=1)
    assert len(seen.replies["anchor"]) == 2
    assert close(run.state.x, [-0.1])
    assert close(run.state.c, [1.0])
    assert close(run.state.m, [0.5])
    still = simulate(Anchored(eta_l=0.1, steps=2, a=0.5, refresh="anchors", p=0.999), PAIR, rounds=1)
    assert close(still.state.x, [0.0])  # as in FedAMD: no miner, no step


def test_two_rounds_ahead_by_hand():
    """K·η_l = 0.2, a = 0.5, s = 1. Round 0: gradients −1 and 3 at 0, Δ̄ = 0.2·0.5·1: x_1 = −0.1, c = 1, m = 0.5.
    Round 1: z = −0.1 − 0.2·(0.5·1 + 0.5·0.5) = −0.25, gradients −1.25 and 2.25 there, changes −0.25 and −0.75;
    Δ̄ = 0.2·(0.5·(1 − 0.5) + 0.5·0.5) = 0.1: x_2 = −0.2, c = 0.5."""
    method = Anchored(eta_l=0.2, steps=1, small_batch="full", a=0.5, s=1.0, ahead=True)
    assert close(trajectory(method, PAIR, rounds=2), [-0.1, -0.2])
    assert close(simulate(method, PAIR, rounds=2).state.c, [0.5])


def test_ahead_the_change_alone_tells_the_step(crowd):
    """s = 1: Δ from the change alone, or Δ sent by the miners: the same steps."""
    how = {"eta_l": 0.1, "steps": 3, "small_batch": 1, "a": 0.4, "s": 1.0, "ahead": True}
    told = trajectory(Anchored(**how, reduced=False), crowd, 20, cohort=3)
    assert close(trajectory(Anchored(**how), crowd, 20, cohort=3), told, 1e-10)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("refresh", ["miners", "anchors", "both"])
def test_missing_replies(refresh, reduced, ahead, crowd):
    """Invariant: c is the mean of all M c_i, replied or not; m is the last move over K·η_l."""
    own = {"a": 0.3, "s": 0.5, "refresh": refresh, "p": 0.3, "reduced": reduced, "ahead": ahead}
    method = Anchored(eta_l=0.05, steps=2, small_batch=2, **own)
    run, rounds = witness(method, crowd, rounds=40, cohort=3, failure_rate=0.3)
    assert close(run.state.c, held(run, "c").mean(0))
    for seen in rounds:
        moved = seen.before.x - seen.after.x
        assert close(moved, seen.after.m * 0.1) or close(moved, [0.0])


@pytest.mark.parametrize(
    ("settings", "up", "down"),
    [
        ({}, 2, 2),  # a miner: the start down, the change up
        ({"ahead": False}, 2, 4),  # x and the pull down
        ({"reduced": False}, 4, 2),  # Δ beside the change
        ({"refresh": "anchors", "p": 0.001}, 2, 2),  # Δ alone
    ],
)
def test_costs(settings, up, down):
    """A·K·b' gradients of miners; here A = 2, K = 3, b' = 1."""
    run = simulate(Anchored(**STEPS, **settings), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 6, "bits_up": up * 64, "bits_down": down * 64}


def test_an_anchor_costs_its_batch_and_two_vectors():
    run = simulate(Anchored(**STEPS, refresh="both", p=0.999), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 6, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_refuses_anchors_always_or_never():
    with pytest.raises(FedamdError, match=r"^p must lie strictly between 0 and 1, not 0"):
        Anchored(p=0)
