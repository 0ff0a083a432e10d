"""VR-MARINA and PP-MARINA: two rounds by hand, gradient descent, one another, bits, and missing replies."""

import itertools

import pytest
import torch

from fedamd.algorithms import MinibatchSGD, PPMarina, VRMarina
from fedamd.algorithms.base import Federation, Turn
from fedamd.errors import FedamdError
from support import PAIR, client_gradient, close, optimum, quadratic_problem, simulate, trajectory, witness

NOT_FULL = {"p": 0.0}  # after round 0, which is always full


def test_two_rounds_by_hand():
    """γ = 1/4. Round 0: g_0 = 1, x_1 = −1/4. Round 1: the differences are 1·(−1/4) and 3·(−1/4), g_1 = 1 − 1/2 = 1/2;
    x_2 = −3/8."""
    assert close(trajectory(VRMarina(eta_s=0.25, **NOT_FULL), PAIR, rounds=2), [-0.25, -0.375])


def test_two_rounds_of_partial_participation_by_hand():
    """Curvatures 1, 3, 2 and centres 1, −1, 0: ∇F(0) = (−1 + 3 + 0)/3 = 2/3, and γ = 3/8 makes x_1 = −1/4.
    With seed 0 the cohort of round 1 is {0, 2}: g_1 = 2/3 − (1 + 2)/2·(1/4) = 7/24; x_2 = −1/4 − 7/64 = −23/64."""
    three = quadratic_problem([(1.0, 1.0)], [(-1.0, 3.0)], [(0.0, 2.0)])
    assert Turn(1, 0, Federation(3, 2, (1, 1, 1))).cohort == (0, 2)
    assert close(trajectory(PPMarina(eta_s=0.375, **NOT_FULL), three, rounds=2, cohort=2), [-0.25, -23 / 64])


def test_two_rounds_with_rand_k_by_hand():
    """d = 2, k = 1, γ = 1/2; client 0: z = (1, 2), h = (1, 1); client 1: z = (−1, 0), h = (3, 1).

    Round 0: ∇F(0) = ((−1 + 3)/2, (−2 + 0)/2) = (1, −1);  x_1 = (−1/2, 1/2).
    Round 1: the differences are (−1/2, 1/2) and (−3/2, 1/2). Each client sends twice one of its coordinates, so g_1
    − g_0 is the mean of (−1, 0) or (0, 1) and of (−3, 0) or (0, 1). Every choice of both must occur over the seeds.
    """
    data = quadratic_problem([((1.0, 2.0), (1.0, 1.0))], [((-1.0, 0.0), (3.0, 1.0))])
    method = VRMarina(eta_s=0.5, compressor="rand-k", fraction=0.5, **NOT_FULL)
    possible = []
    for first, second in itertools.product([(-1.0, 0.0), (0.0, 1.0)], [(-3.0, 0.0), (0.0, 1.0)]):
        g = (1 + (first[0] + second[0]) / 2, -1 + (first[1] + second[1]) / 2)
        possible.append((-0.5 - g[0] / 2, 0.5 - g[1] / 2))
    reached = [simulate(method, data, rounds=2, x0=(0.0, 0.0), seed=seed).state.x for seed in range(16)]
    assert all(any(close(x, point) for point in possible) for x in reached)
    assert all(any(close(x, point) for x in reached) for point in possible)


def test_always_full_without_compression_is_gradient_descent(crowd):
    marina = trajectory(VRMarina(eta_s=0.3, p=1.0), crowd, rounds=6, cohort=2)
    assert close(marina, trajectory(MinibatchSGD(eta_s=0.3, steps=1, small_batch="full"), crowd, rounds=6))


@pytest.mark.parametrize("compressor", ["identity", "rand-k", "quantise"])
def test_partial_participation_of_everyone_is_vr_marina(compressor, crowd):
    """The same batches, coins and compressions: to the bit."""
    how = {"eta_s": 0.1, "p": 0.3, "compressor": compressor, "small_batch": 1}
    assert torch.equal(
        trajectory(PPMarina(**how), crowd, rounds=10), trajectory(VRMarina(**how), crowd, rounds=10, cohort=2)
    )


def test_reaches_the_optimum_with_compression(crowd):
    """The compressed differences vanish as x settles, so their noise does too."""
    run = simulate(VRMarina(eta_s=0.4, p=0.3, compressor="quantise", small_batch="full"), crowd, rounds=60)
    assert close(run.state.x, optimum(crowd), 1e-9)


def test_bits_are_counted_compressed():
    """d = 10 in float64: full round 2 vectors of 640 bits a client. Else two down (x_t and x_{t−1}), and up:
    identity 640; rand-k with k = 2 128; QSGD with s = 4 a norm of 64 and 10·(1 + 3) bits."""
    wide = quadratic_problem(*([((1.0,) * 10, (h,) * 10)] for h in (1.0, 3.0)))
    zeros = (0.0,) * 10
    for compressor, up in (("identity", 640), ("rand-k", 128), ("quantise", 104)):
        method = VRMarina(compressor=compressor, fraction=0.2, levels=4, **NOT_FULL)
        run = simulate(method, wide, rounds=2, x0=zeros)
        assert run.ledger.bits_up == 2 * 640 + 2 * up
        assert run.ledger.bits_down == 2 * 640 + 2 * 1280


def test_gradients_are_counted(crowd):
    """Full round: M·b, here the 12 samples of all. Else 2·b' of each client that is asked."""
    run = simulate(PPMarina(**NOT_FULL, small_batch=1), crowd, rounds=3, cohort=2)
    assert run.ledger.gradient_samples == 12 + 2 * 2 * 2
    everyone = simulate(VRMarina(**NOT_FULL, small_batch=1), crowd, rounds=3, cohort=2)
    assert everyone.ledger.gradient_samples == 12 + 2 * 5 * 2


@pytest.mark.parametrize("method", [VRMarina, PPMarina])
def test_missing_replies(method, crowd):
    """Invariants: x_{t+1} = x_t − γ·g_t; in a full round g_t is the mean gradient of those who replied, else g_{t−1}
    plus their mean change; nothing changes where nobody replied."""
    _, rounds = witness(method(eta_s=0.1, p=0.3, compressor="rand-k"), crowd, rounds=60, cohort=1, failure_rate=0.3)
    silent = 0
    for seen in rounds:
        if full := seen.replies.get("surveyor"):
            wanted = sum(client_gradient(crowd, i, seen.before.x) for i in full.clients) / len(full)
        elif some := seen.replies.get("compressor"):
            wanted = seen.before.g + some.change.mean(0)
        else:
            silent += 1
            assert close(seen.after.x, seen.before.x)
            continue
        assert close(seen.after.g, wanted)
        assert close(seen.after.x, seen.before.x - 0.1 * wanted)
    assert silent or method is VRMarina


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"compressor": "top-k"}, "compressor must be one of identity, rand-k, quantise, not 'top-k'"),
        ({"fraction": 0.0}, "fraction must be a finite number above 0, not 0.0"),
        ({"fraction": 1.5}, r"fraction must lie in \[0, 1\], not 1.5"),
        ({"levels": 0}, "levels must be a whole number of at least 1, not 0"),
    ],
)
def test_refuses(wrong, sentence):
    with pytest.raises(FedamdError, match=f"^{sentence}$"):
        VRMarina(**wrong)
