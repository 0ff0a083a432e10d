"""What a run costs, counted a second time from the paper's formulas."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd import FedAMD, draw
from fedamd.algorithms.base import Batches, Exchange, Federation, Replies, Turn, role
from fedamd.draw import Purpose
from fedamd.runs.ledger import Ledger
from support import quadratic_problem, simulate

D = 3
SIZES = (2, 5, 1, 4, 3, 6)
PROBLEM = quadratic_problem(*([([float(i), 1.0, -1.0], [1.0, 0.5, 2.0])] * size for i, size in enumerate(SIZES)))
VECTOR = D * 64  # bits of one float64 vector


def failed(seed: int, rate: float, t: int, clients) -> set[int]:
    return {i for i in clients if draw.uniform(seed, Purpose.FAILURE, t, i) < rate}


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    cohort=st.integers(1, 6),
    steps=st.integers(1, 4),
    small_batch=st.one_of(st.just("full"), st.integers(1, 4)),
    large_batch=st.one_of(st.just("full"), st.integers(4, 8)),
    schedule=st.one_of(
        st.fixed_dictionaries({"p": st.floats(0.1, 0.9)}), st.fixed_dictionaries({"tau": st.integers(2, 4)})
    ),
    rate=st.sampled_from([0.0, 0.4]),
    cache=st.sampled_from(["server", "client"]),
    start_up=st.sampled_from(["full", "zeros", "lazy"]),
)
def test_fedamd_is_counted_as_the_paper_counts(
    seed, cohort, steps, small_batch, large_batch, schedule, rate, cache, start_up
):
    """Gradients: anchors·b + miners·2·K·b', with b and b' at most what a client owns, of those that replied.

    Vectors: an anchor is sent x and sends v (or its change); a miner is sent x and the bullseye and sends Δ. What goes
    to a client that fails is sent, but nothing comes back. The start-up, all M as anchors, is counted apart.
    """
    method = FedAMD(
        eta_l=0.01,
        steps=steps,
        small_batch=small_batch,
        large_batch=large_batch,
        cache=cache,
        start_up=start_up,
        **schedule,
    )
    run = simulate(method, PROBLEM, rounds=6, cohort=cohort, seed=seed, failure_rate=rate)

    def samples(size, client: int) -> int:
        return SIZES[client] if size == "full" else min(size, SIZES[client])

    gradients = up = down = 0
    for t in range(6):
        turn = Turn(t, seed, Federation(6, cohort, SIZES))
        anchors = {i for i in turn.cohort if turn.coin(method.schedule(cohort)(t), i)}
        miners = set(turn.cohort) - anchors
        lost = failed(seed, rate, t, turn.cohort)
        gradients += sum(samples(large_batch, i) for i in anchors - lost)
        gradients += sum(2 * steps * samples(small_batch, i) for i in miners - lost)
        up += len(anchors - lost) + len(miners - lost)
        down += len(anchors) + 2 * len(miners)
        record = run.records[t + 1]
        assert record.gradient_samples == gradients
        assert (record.costs["bits_up"], record.costs["bits_down"]) == (up * VECTOR, down * VECTOR)
    if rate == 0:
        assert run.ledger.totals()["bits_up"] + run.ledger.totals()["bits_down"] == (up + down) * VECTOR

    everyone = set(range(6)) if start_up == "full" else set()
    came = everyone - failed(seed, rate, -1, everyone)
    assert run.start_up.totals() == {
        "gradient_samples": sum(samples(large_batch, i) for i in came),
        "bits_up": len(came) * VECTOR,
        "bits_down": len(everyone) * VECTOR,
    }


def test_a_round_of_the_papers_setting():
    """A = 4 equal clients of n = 6, K = 3, b' = 2, pattern {0, 1}: 4·2·3·2 gradients and 3·4 vectors for the miners,
    then 4·6 gradients and 2·4 vectors for the anchors."""
    problem = quadratic_problem(*([([1.0, 2.0], [1.0, 1.0])] * 6 for _ in range(4)))
    run = simulate(FedAMD(eta_l=0.01, steps=3, small_batch=2, pattern="0,1"), problem, rounds=2)
    first, second = run.records[1:]
    assert first.gradient_samples == 48
    assert first.bits == 12 * 2 * 64
    assert second.gradient_samples - first.gradient_samples == 24
    assert second.bits == (12 + 8) * 2 * 64


@role("worker", gradients=3)
def work(task, batches, grad):
    raise NotImplementedError


def test_compressed_replies_count_their_own_bits_and_numbers_ride_along():
    """Two clients sent x (5 float32) and a number, answering a 7-bit vector, a whole one and a number each."""
    x = torch.zeros(5)
    exchange = Exchange(work.to([0, 2], Batches(2, 3), Batches(1, "full"), x=x, eta=0.1))
    replies = Replies(
        [0], {"a": torch.zeros(1, 5), "b": torch.zeros(1, 5), "c": torch.zeros(1, 1)}, None, {"a": 7}, [2]
    )
    ledger = Ledger()
    ledger.add(exchange, {"worker": replies}, [4, 9, 2])
    assert ledger.bits_down == 2 * 5 * 32
    assert ledger.bits_up == 2 * (7 + 5 * 32)  # a rejected reply was sent too
    assert ledger.gradient_samples == 3 * ((2 * 3 + 4) + (2 * 2 + 2))


@pytest.mark.parametrize(("size", "owned", "samples"), [(3, 10, 6), (3, 2, 4), ("full", 7, 14)])
def test_a_batch_is_never_larger_than_what_a_client_owns(size, owned, samples):
    assert Batches(2, size).samples(owned) == samples
