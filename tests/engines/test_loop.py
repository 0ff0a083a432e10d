"""The reference engine: bad replies are dropped and counted, missing ones are simply not there."""

import math

import pytest
import torch

from fedamd import FedAMD, draw
from fedamd.draw import Purpose
from fedamd.engines.loop import LoopEngine
from fedamd.models import Quadratic
from fedamd.oracles.autograd import AutogradOracle
from support import client_gradient, quadratic_problem, simulate

# Client m owns sample m alone.
THREE = quadratic_problem([((1.0, 0.0), (1.0, 2.0))], [((0.0, 2.0), (2.0, 1.0))], [((3.0, 1.0), (1.0, 1.0))])


class FaultyOracle(AutogradOracle):
    """Spoils the gradients of some clients' samples while `broken`."""

    def __init__(self, clients: set[int], spoil) -> None:
        super().__init__(Quadratic(2).double(), THREE)
        self.clients, self.spoil, self.broken = clients, spoil, True

    def gradient(self, x, batch):
        gradient, loss = super().gradient(x, batch)
        return (self.spoil(gradient) if self.broken and batch.samples[0].item() in self.clients else gradient), loss


def nan(gradient):
    return torch.full_like(gradient, math.nan)


def one_infinite(gradient):
    return torch.cat([gradient[:-1], gradient.new_tensor([math.inf])])


def too_long(gradient):
    return torch.cat([gradient, gradient])


@pytest.mark.parametrize("spoil", [nan, one_infinite, too_long])
def test_a_bad_reply_never_enters_the_cache(spoil):
    """Start-up: client 1's reply is dropped; the bullseye is the mean of the two that came."""
    oracle = FaultyOracle({1}, spoil)
    run = simulate(FedAMD(eta_l=0.1, steps=1, pattern="1,0"), THREE, rounds=1, engine=LoopEngine(oracle))
    assert [record.rejected for record in run.records] == [1, 1]
    assert [record.roles["anchor"] for record in run.records] == [2, 2]
    assert [record.missing for record in run.records] == [0, 0]
    assert run.state.seen.flatten().tolist() == [1, 0, 1]
    assert run.state.v[1].tolist() == [0, 0]
    expected = (client_gradient(THREE, 0, 0.0) + client_gradient(THREE, 2, 0.0)) / 2
    torch.testing.assert_close(run.state.bullseye, expected, rtol=0, atol=1e-12)
    assert run.status == "finished"


def test_a_bad_reply_was_computed_and_sent_all_the_same():
    """Three anchors of one sample each: three gradients, three vectors of two float64 up, three down."""
    run = simulate(FedAMD(pattern="1,0"), THREE, rounds=1, engine=LoopEngine(FaultyOracle({1}, nan)))
    assert run.ledger.totals() == {"gradient_samples": 3, "bits_up": 3 * 2 * 64, "bits_down": 3 * 2 * 64}


def test_a_client_whose_reply_was_dropped_keeps_what_it_held():
    """Client 1 answers well at start-up and in round 1 (miners), and badly in round 2 (anchors)."""
    oracle = FaultyOracle({1}, nan)
    oracle.broken = False
    held, points = [], []

    def note(run, record):
        oracle.broken = record.round == 1
        held.append(run.site.store.read("v", range(3), run.state.x))
        points.append(run.state.x.clone())

    run = simulate(
        FedAMD(eta_l=0.1, steps=2, pattern="1,0", cache="client"),
        THREE,
        rounds=3,
        engine=LoopEngine(oracle),
        listen=note,
    )
    assert run.records[-1].rejected == 1
    assert torch.equal(held[-1][1], held[-2][1])
    assert not torch.equal(held[-1][0], held[-2][0])
    torch.testing.assert_close(held[-1][2], client_gradient(THREE, 2, points[-2]), rtol=0, atol=1e-12)
    torch.testing.assert_close(run.state.bullseye, held[-1].mean(0), rtol=0, atol=1e-12)


def test_a_first_reply_that_is_dropped_leaves_the_client_fresh():
    run = simulate(FedAMD(pattern="1,0", cache="client"), THREE, rounds=1, engine=LoopEngine(FaultyOracle({1}, nan)))
    assert run.site.store.fresh(range(3)) == [False, True, False]


def test_a_role_that_got_only_bad_replies_three_times_in_a_row_has_diverged():
    """The anchors of the start-up and of rounds 0 and 2; the miners of round 1 are another role."""
    run = simulate(FedAMD(pattern="1,0"), THREE, rounds=5, engine=LoopEngine(FaultyOracle({0, 1, 2}, nan)))
    assert run.status == "diverged"
    assert (run.t, len(run.records)) == (3, 4)


def test_missing_replies_are_counted_and_change_nothing():
    """Client i fails in round t where its own number falls below the rate; what it was sent was sent all the same."""
    rate, seed = 0.5, 3
    caches = []
    run = simulate(
        FedAMD(eta_l=0.1, steps=1, tau=2),
        THREE,
        rounds=9,
        seed=seed,
        failure_rate=rate,
        listen=lambda run, _: caches.append(run.state.v.clone()),
    )
    seen_missing = 0
    for t, record in zip(range(-1, 9), run.records, strict=True):
        failed = [i for i in range(3) if draw.uniform(seed, Purpose.FAILURE, t, i) < rate]
        seen_missing += len(failed)
        assert record.missing == len(failed)
        assert sum(record.roles.values()) == 3 - len(failed)
        if t >= 0 and t % 2 == 0:
            assert all(torch.equal(caches[t + 1][i], caches[t][i]) for i in failed)
    assert 5 < seen_missing < 25
    vectors_sent = 5 * 3 * 1 + 4 * 3 * 2  # five rounds of anchors (x), four of miners (x and the bullseye)
    assert run.ledger.bits_down == vectors_sent * 2 * 64


def test_two_orders_of_one_exchange_are_answered_by_role():
    """Every reply of a round is under its role's name, in the order of the clients asked."""
    run = simulate(FedAMD(eta_l=0.1, steps=1, p=0.5), THREE, rounds=20, seed=1)
    mixed = [record for record in run.records[1:] if record.roles["anchor"] and record.roles["miner"]]
    assert mixed
    assert all(record.roles["anchor"] + record.roles["miner"] == 3 for record in run.records[1:])
