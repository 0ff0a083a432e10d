"""FedVARP: FedAvg when everyone is there, and the paper's rule, from a table kept in the test, when not."""

import pytest
import torch

from fedamd.algorithms import FedAvg, FedVARP
from support import PAIR, TRIPLES, close, held, simulate, trajectory, witness

HOW = {"eta_l": 0.1, "steps": 3, "small_batch": 1}


def test_a_round_of_one_client_by_hand():
    """η_l = 0.1, K = 2 from x = 0: Δ_0 = −0.19 or Δ_1 = 0.51; no memory yet, so v = Δ_i, and ȳ = Δ_i/2 then."""
    run, (seen,) = witness(FedVARP(eta_l=0.1, steps=2), PAIR, rounds=1, cohort=1)
    delta = {0: -0.19, 1: 0.51}[seen.replies["worker"].clients[0]]
    assert close(run.state.x, [-delta])
    assert close(run.state.mean_update, [delta / 2])


def test_with_everyone_it_is_fedavg(crowd):
    assert close(trajectory(FedVARP(**HOW), crowd, rounds=6), trajectory(FedAvg(**HOW), crowd, rounds=6))


@pytest.mark.parametrize("failure_rate", [0.0, 0.3])
def test_the_rule_of_the_paper(crowd, failure_rate):
    """v = mean of (Δ_i − y_i) over those that replied + the mean of all M y_j, with the y_j in a table here."""
    run, rounds = witness(FedVARP(**HOW), crowd, rounds=40, cohort=2, failure_rate=failure_rate)
    table = torch.zeros(5, 1, dtype=torch.float64)
    for seen in rounds:
        workers = seen.replies["worker"]
        if not len(workers):
            assert close(seen.after.x, seen.before.x)
            continue
        who = list(workers.clients)
        delta = workers.change + table[who]
        v = (delta - table[who]).mean(0) + table.mean(0)
        assert close(seen.before.x - seen.after.x, v)
        table[who] = delta
    assert close(held(run, "last"), table)
    assert close(run.state.mean_update, table.mean(0))


def test_costs():
    """As FedAvg: A·K·b' gradients, 2A vectors."""
    run = simulate(FedVARP(eta_l=0.1, steps=2, small_batch=1), TRIPLES, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 4, "bits_up": 2 * 64, "bits_down": 2 * 64}


def test_the_server_may_have_momentum(crowd):
    """m ← ½·m + v: the second step of heavy = its first step's half and the plain direction at the same point."""
    run, rounds = witness(FedVARP(**HOW, server="momentum", beta_1=0.5), crowd, rounds=5, cohort=2)
    m = torch.zeros(1, dtype=torch.float64)
    for seen in rounds:
        m = 0.5 * m + seen.replies["worker"].change.mean(0) + seen.before.mean_update
        assert close(seen.before.x - seen.after.x, m)
    assert run.status == "finished"
