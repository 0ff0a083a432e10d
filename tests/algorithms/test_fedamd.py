"""FedAMD against numbers worked out by hand, the paper's identities, and its linear rate under the PL condition."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedamd
from fedamd import FedAMD, draw
from fedamd.algorithms.base import Federation, Turn
from fedamd.data.synthetic import quadratic
from fedamd.draw import Purpose
from fedamd.engines.loop import LoopEngine
from fedamd.models import Quadratic
from fedamd.oracles.autograd import AutogradOracle
from support import client_gradient, quadratic_problem, simulate, trajectory

# ∇F_0 = 2(x − 1), ∇F_1 = x + 1
PAIR = quadratic_problem([(1.0, 2.0)], [(-1.0, 1.0)])
SMALL = {"eta_l": 0.1, "eta_s": 0.5, "steps": 2}


def unequal_problem(seed: int = 0, sizes: tuple[int, ...] = (1, 3, 5, 2, 4), dimension: int = 3):
    """Clients of different sizes with random centres and curvatures in [0.5, 1.5]."""
    random = torch.Generator().manual_seed(seed)

    def point() -> tuple[list[float], list[float]]:
        centre = torch.randn(dimension, generator=random, dtype=torch.float64)
        curvature = 0.5 + torch.rand(dimension, generator=random, dtype=torch.float64)
        return centre.tolist(), curvature.tolist()

    return quadratic_problem(*([point() for _ in range(size)] for size in sizes))


UNEQUAL = unequal_problem()


# --- by hand ---


def test_three_rounds_by_hand():
    """Miners, anchors, miners: the pattern {0, 1} from x_0 = 0 with η_l = 0.1, η_s = 0.5, K = 2.

    Start-up: v = (2(0 − 1), 0 + 1) = (−2, 1), bullseye −0.5.
    Round 0: the first step of both is −0.5, to x = 0.05. Client 0: g = −0.5 + 2·0.05 = −0.4, x = 0.09. Client 1:
    g = −0.5 + 0.05 = −0.45, x = 0.095. Mean Δ = −0.0925, x_1 = 0.5·0.0925 = 0.04625.
    Round 1: v = (2(0.04625 − 1), 1.04625) = (−1.9075, 1.04625), bullseye −0.430625; x_2 = x_1.
    Round 2: first step 0.0430625. Client 0: g = −0.430625 + 2·0.0430625 = −0.3445, Δ = −0.0775125. Client 1:
    g = −0.3875625, Δ = −0.08181875. x_3 = 0.04625 + 0.5·0.079665625 = 0.0860828125.
    """
    seen = []
    run = simulate(
        FedAMD(pattern="0,1", **SMALL),
        PAIR,
        rounds=3,
        listen=lambda run, _: seen.append((run.state.x.item(), run.state.bullseye.item())),
    )
    expected = [(0, -0.5), (0.04625, -0.5), (0.04625, -0.430625), (0.0860828125, -0.430625)]
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.state.v.flatten(), [-1.9075, 1.04625], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("anchor", "x", "bullseye"),
    [
        # Client 1 mines from x_1 = 0.04625 with the OLD bullseye −0.5: Δ = −(0.05 + 0.045), x_2 = 0.04625 + 0.0475.
        # Client 0's new v = −1.9075, so the next bullseye is (−1.9075 + 1)/2.
        (0, 0.09375, -0.45375),
        # Client 0 mines: Δ = −(0.05 + 0.04), x_2 = 0.04625 + 0.045. Client 1's v = 1.04625: (−2 + 1.04625)/2.
        (1, 0.09125, -0.476875),
    ],
)
def test_an_anchor_and_a_miner_in_one_round(anchor, x, bullseye):
    """Round 0 is all miners as above; in round 1, p = ½, one client is an anchor and the other a miner."""
    federation = Federation(2, 2, (1, 1))
    seed = next(
        seed for seed in range(100) if [Turn(1, seed, federation).coin(0.5, i) for i in (0, 1)] == [not anchor, anchor]
    )
    run = simulate(FedAMD(pattern=(0.0, 0.5), **SMALL), PAIR, rounds=2, seed=seed)
    assert (run.records[-1].roles["anchor"], run.records[-1].roles["miner"]) == (1, 1)
    assert run.state.x.item() == pytest.approx(x, abs=1e-12)
    assert run.state.bullseye.item() == pytest.approx(bullseye, abs=1e-12)


def test_the_training_loss_is_the_mean_over_miners_and_their_steps():
    """Round 0 above: ½·2·(x − 1)² at 0 and 0.05 gives 1 and 0.9025; ½(x + 1)² gives 0.5 and 0.55125. Their mean."""
    run = simulate(FedAMD(pattern="0,1", **SMALL), PAIR, rounds=1)
    assert run.records[-1].loss == pytest.approx((1 + 0.9025 + 0.5 + 0.55125) / 4, abs=1e-12)


# --- identities ---


@pytest.mark.parametrize("large_batch", ["full", 2])
def test_alternating_full_rounds_with_one_step_are_minibatch_sgd(large_batch):
    """A = M, p = 1, 0, 1, 0, …, K = 1: x ← x − η_s·η_l·(1/M) Σ ∇f_i(x; B_i), on the batches the anchors drew."""
    eta_l, eta_s, seed = 0.2, 0.7, 11
    got = trajectory(
        FedAMD(eta_l=eta_l, eta_s=eta_s, steps=1, small_batch=1, large_batch=large_batch, pattern="1,0"),
        UNEQUAL,
        rounds=8,
        seed=seed,
        x0=[1.0, -1.0, 0.5],
    )
    x = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    for t in range(0, 8, 2):
        gradients = []
        for client, size in enumerate(UNEQUAL.clients.sizes):
            key = draw.words([draw.bits(seed, Purpose.BATCH, t, 0, 0, client, 0)], x.device)
            position, _ = draw.positions(key, [size], None if large_batch == "full" else large_batch)
            centre, curvature = UNEQUAL.inputs[UNEQUAL.clients.samples(client)[position[0]]].unbind(1)
            gradients.append((curvature * (x - centre)).mean(0))
        torch.testing.assert_close(got[t], x, rtol=0, atol=1e-12)
        x = x - eta_s * eta_l * torch.stack(gradients).mean(0)
        torch.testing.assert_close(got[t + 1], x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("start_up", ["full", "zeros", "lazy"])
@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("failure_rate", [0.0, 0.3])
def test_who_keeps_the_cache_does_not_matter(start_up, weights, failure_rate):
    method = {"eta_l": 0.1, "steps": 3, "small_batch": 2, "p": 0.4, "start_up": start_up, "weights": weights}
    how = {"rounds": 25, "cohort": 3, "seed": 4, "failure_rate": failure_rate, "x0": 2.0}
    by_server = trajectory(FedAMD(cache="server", **method), UNEQUAL, **how)
    by_client = trajectory(FedAMD(cache="client", **method), UNEQUAL, **how)
    assert not torch.equal(by_server[0], by_server[-1])
    torch.testing.assert_close(by_client, by_server, rtol=0, atol=1e-12)


def test_samples_weigh_by_client_size():
    """Full batches, A = M, weights by samples: a round of anchors, then K = 1, is a gradient step on all samples."""
    got = trajectory(
        FedAMD(eta_l=0.1, steps=1, pattern="1,0", weights="samples"), UNEQUAL, rounds=2, x0=[1.0, 2.0, 3.0]
    )
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    centre, curvature = UNEQUAL.inputs.unbind(1)
    torch.testing.assert_close(got[1], x - 0.1 * (curvature * (x - centre)).mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("micro_batch", [1, 2, 3])
def test_micro_batches_change_nothing(micro_batch):
    method = FedAMD(eta_l=0.1, steps=3, small_batch=3, p=0.4)
    engine = LoopEngine(AutogradOracle(Quadratic(3).double(), UNEQUAL), micro_batch=micro_batch)
    parts = trajectory(method, UNEQUAL, rounds=10, cohort=3, engine=engine)
    torch.testing.assert_close(parts, trajectory(method, UNEQUAL, rounds=10, cohort=3), rtol=0, atol=1e-12)


def test_without_a_miner_the_model_stays_to_the_last_bit():
    points = trajectory(FedAMD(eta_l=0.1, steps=2, tau=3), UNEQUAL, rounds=7, x0=1.0)
    unmoved = [torch.equal(after, before) for before, after in pairwise(points)]
    assert unmoved == [False, False, True, False, False, True]  # into rounds 1 … 6; anchors in 3 and 6
    assert torch.equal(points[0], torch.ones(3, dtype=torch.float64))  # round 0 is one of anchors too


def test_anchors_entries_are_replaced_and_nobody_elses():
    method = FedAMD(eta_l=0.1, steps=2, p=0.5)
    states = []
    simulate(
        method,
        UNEQUAL,
        rounds=12,
        cohort=3,
        seed=2,
        listen=lambda run, _: states.append((run.state.x.clone(), run.state.v.clone())),
    )
    federation = Federation(5, 3, UNEQUAL.clients.sizes)
    anchors_seen = 0
    for t, ((x, before), (_, after)) in enumerate(pairwise(states)):
        turn = Turn(t, 2, federation)
        for client in range(5):
            if client in turn.cohort and turn.coin(0.5, client):
                torch.testing.assert_close(after[client], client_gradient(UNEQUAL, client, x), rtol=0, atol=1e-12)
                anchors_seen += 1
            else:
                assert torch.equal(after[client], before[client])
    assert 5 < anchors_seen < 31


class SpyOracle(AutogradOracle):
    """Counts what it is asked."""

    def __init__(self, *what):
        super().__init__(*what)
        self.calls = []

    def gradient(self, x, batch):
        self.calls.append("gradient")
        return super().gradient(x, batch)

    def difference(self, x, previous, batch):
        self.calls.append("difference")
        gradient, loss = super().gradient(x, batch)
        return gradient - super().gradient(previous, batch)[0], loss

    def loss(self, x, batch):
        self.calls.append("loss")
        return super().loss(x, batch)


def test_the_first_local_step_spends_no_gradient():
    oracle = SpyOracle(Quadratic(1).double(), PAIR)
    simulate(
        FedAMD(pattern="0,1", start_up="zeros", eta_l=0.1, steps=3), PAIR, rounds=1, cohort=1, engine=LoopEngine(oracle)
    )
    assert oracle.calls == ["loss", "difference", "difference"]


def test_p_can_be_any_function_of_the_round():
    method = {"eta_l": 0.1, "steps": 2, "small_batch": 2}
    own = trajectory(FedAMD(p=lambda t: float(t % 3 == 0), **method), UNEQUAL, rounds=7, cohort=3)
    assert torch.equal(own, trajectory(FedAMD(tau=3, **method), UNEQUAL, rounds=7, cohort=3))
    with pytest.raises(fedamd.FedamdError, match=r"gave 2\.0 for round 1"):
        trajectory(FedAMD(p=lambda t: 2.0 * t, **method), UNEQUAL, rounds=2)


# --- convergence under PL ---


def assert_linear(errors: np.ndarray, floor: float) -> None:
    """The errors fall to the floor, and until then their logarithm is a line."""
    assert errors[-1] < floor
    falling = errors[: int(np.argmax(errors < floor))]
    assert len(falling) > 30
    t = np.arange(len(falling))
    correlation = np.corrcoef(t, np.log(falling))[0, 1]
    assert correlation < 0
    assert correlation**2 > 0.97


@pytest.mark.parametrize(
    ("cohort", "rounds", "method"),
    [
        (6, 140, {"tau": 2, "eta_l": 0.3}),
        (3, 300, {"tau": 3, "eta_l": 0.1, "eta_s": 0.7}),
        (3, 300, {"p": 0.6, "eta_l": 0.15, "eta_s": 0.7}),
    ],
)
def test_linear_convergence_on_a_quadratic(cohort, rounds, method):
    problem = quadratic(clients=6, samples=2, dimension=3, mu=0.5, L=1.0, sigma=1.0, seed=1)
    points = trajectory(FedAMD(steps=3, small_batch="full", **method), problem, rounds=rounds, cohort=cohort, seed=3)
    assert_linear((points - problem.constants.optimum).norm(dim=1).numpy(), 1e-12)


def test_linear_convergence_on_logistic_regression():
    """Partial participation, label skew, small batches full: F(x_t) − F* to the last digits of float64."""
    errors = []
    problem = fedamd.load("logistic", clients=6, samples=8, dimension=3, regularisation=0.2, seed=2)
    fedamd.run(
        {
            "data": {"name": "logistic", "samples": 8, "dimension": 3, "regularisation": 0.2, "seed": 2},
            "clients": 6,
            "cohort": 2,
            "rounds": 500,
            "dtype": "float64",
        },
        algorithm=FedAMD(eta_l=0.3, eta_s=0.5, steps=3, small_batch="full", p=0.5),
        listen=lambda run, _: errors.append((run.state.x - problem.constants.optimum).norm().item()),
    )
    assert_linear(np.array(errors), 1e-12)


# --- the bullseye ---


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cohort=st.integers(1, 5),
    p=st.floats(0.05, 0.95),
    failure_rate=st.sampled_from([0.0, 0.3, 0.9]),
    start_up=st.sampled_from(["full", "zeros", "lazy"]),
    weights=st.sampled_from(["uniform", "samples"]),
    cache=st.sampled_from(["server", "client"]),
)
def test_the_bullseye_is_the_mean_of_the_cache(seed, cohort, p, failure_rate, start_up, weights, cache):
    """After every round, whoever failed: over all clients (zeros), or over those whose gradient was ever seen."""
    sizes = torch.tensor(UNEQUAL.clients.sizes, dtype=torch.float64)
    w = torch.ones(5, dtype=torch.float64) if weights == "uniform" else sizes

    def check(run, _):
        if cache == "server":
            v, seen = run.state.v, run.state.seen.flatten().bool()
        else:
            v = run.site.store.read("v", range(5), run.state.x)
            seen = ~torch.tensor(run.site.store.fresh(range(5)))
        known = torch.ones(5, dtype=torch.bool) if start_up == "zeros" else seen
        mass = (w * known).unsqueeze(-1)
        expected = (mass * v).sum(0) / mass.sum() if known.any() else torch.zeros(3, dtype=torch.float64)
        torch.testing.assert_close(run.state.bullseye, expected, rtol=0, atol=1e-12)
        assert (v[~seen] == 0).all()

    simulate(
        FedAMD(eta_l=0.05, steps=2, small_batch=2, p=p, start_up=start_up, weights=weights, cache=cache),
        UNEQUAL,
        rounds=5,
        cohort=cohort,
        seed=seed,
        failure_rate=failure_rate,
        x0=1.0,
        listen=check,
    )


# --- what is refused ---


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"p": 1.0}, "p must lie strictly between 0 and 1, not 1.0"),
        ({"p": 0}, "p must lie strictly between 0 and 1, not 0"),
        ({"p": "best"}, 'p must be a number between 0 and 1, "optimal" or a function'),
        ({"tau": 1}, "tau must be a whole number of at least 2"),
        ({"p": 0.5, "tau": 2}, "give one of p, tau and pattern, not p and tau"),
        ({"small_batch": 65, "large_batch": 64}, r"small_batch \(b' = 65\) must not exceed large_batch \(b = 64\)"),
        ({"large_batch": "all"}, 'large_batch must be "full" or a whole number'),
        ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
        ({"eta_l": float("nan")}, "eta_l must be a finite number above 0"),
        ({"eta_s": -1.0}, "eta_s must be a finite number above 0"),
        ({"c": 0.5}, "c must be at least 1"),
        ({"mu": 0.0}, "mu must be a finite number above 0"),
        ({"cache": "disk"}, "cache must be one of server, client"),
        ({"start_up": "warm"}, "start_up must be one of full, zeros, lazy"),
        ({"weights": "size"}, "weights must be one of uniform, samples"),
    ],
)
def test_impossible_settings_are_refused(settings, says):
    with pytest.raises(fedamd.FedamdError, match=says):
        FedAMD(**settings)


def test_p_is_optimal_unless_told():
    """Theorem 4: A = 20, 40, 100 give p* = 0.887, 0.927, 0.961; c = 2 halves it."""
    assert [round(FedAMD().schedule(cohort)(0), 3) for cohort in (20, 40, 100)] == [0.887, 0.927, 0.961]
    assert FedAMD(p="optimal", c=2.0).schedule(20)(5) == pytest.approx(0.887 / 2, abs=3e-4)
    assert FedAMD(mu=0.5).schedule(20)(0) != FedAMD().schedule(20)(0)
