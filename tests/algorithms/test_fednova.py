"""FedNova: two rounds by hand with unequal numbers of steps, and FedAvg with equal ones."""

from fedamd.algorithms import FedAvg, FedNova
from support import close, quadratic_problem, simulate, trajectory, witness

ONE_AND_TWO = quadratic_problem([(1.0, 1.0)], [(-1.0, 3.0)] * 2)  # batches of one sample: τ_0 = 1, τ_1 = 2


def test_two_rounds_by_hand():
    """η_l = 0.1; τ = (1, 2), τ_eff = 1.5. A step maps y to 0.9y + 0.1 on client 0, to 0.7y − 0.3 on client 1.

    From 0:         client 0: 0.1, Δ/τ = −0.1;  client 1: −0.3, −0.51, Δ/τ = 0.255;  mean 0.0775.
                    x_1 = −1.5·0.0775 = −0.11625.
    From −0.11625:  client 0: Δ/τ = 0.1·(−0.11625 − 1) = −0.111625;
                    client 1: −0.381375, −0.5669625, Δ/τ = 0.4507125/2 = 0.22535625;  mean 0.056865625.
                    x_2 = −0.11625 − 1.5·0.056865625 = −0.2015484375.
    """
    path = trajectory(FedNova(eta_l=0.1, epochs=1, small_batch=1), ONE_AND_TWO, rounds=2)
    assert close(path, [-0.11625, -0.2015484375])


def test_weights_by_samples():
    """w = (1/3, 2/3): τ_eff = 5/3, mean Δ/τ = (−0.1 + 2·0.255)/3 = 0.41/3; x_1 = −2.05/9."""
    path = trajectory(FedNova(eta_l=0.1, small_batch=1, weights="samples"), ONE_AND_TWO, rounds=1)
    assert close(path, [-2.05 / 9])


def test_equal_steps_are_fedavg():
    """Two samples each in batches of one and 1.5 passes: three steps each, so FedAvg with K = 3 on the same batches."""
    data = quadratic_problem([(1.0, 1.0), (2.0, 0.5)], [(-1.0, 3.0), (0.0, 1.0)], [(5.0, 1.0), (4.0, 2.0)])
    nova = trajectory(FedNova(eta_l=0.1, epochs=1.5, small_batch=1), data, rounds=5, cohort=2)
    assert close(nova, trajectory(FedAvg(eta_l=0.1, steps=3, small_batch=1), data, rounds=5, cohort=2))


def test_steps_follow_the_data():
    """τ_i = ⌈E·n_i/b'⌉: 2 passes over 10 samples in batches of 4 are 5 steps; a batch larger than the data is the
    data."""
    assert FedNova(epochs=2, small_batch=4).local_steps(10) == 5
    assert FedNova(epochs=2, small_batch=64).local_steps(10) == 2
    assert FedNova(epochs=3, small_batch="full").local_steps(10) == 3


def test_costs_of_a_round():
    """Client 0 uses one sample, client 1 two; one vector each way and client; the roles are counted apart."""
    run = simulate(FedNova(small_batch=1), ONE_AND_TWO, rounds=1)
    assert run.ledger.totals() == {"gradient_samples": 3, "bits_up": 128, "bits_down": 128}
    assert (run.records[-1].roles["1-step worker"], run.records[-1].roles["2-step worker"]) == (1, 1)


def test_missing_replies():
    """Invariant: the step is the normalised mean of the Δ that came; with one client left that is its own Δ."""
    _, rounds = witness(FedNova(eta_l=0.1, small_batch=1), ONE_AND_TWO, rounds=30, failure_rate=0.3)
    alone = 0
    for seen in rounds:
        one, two = seen.replies["1-step worker"], seen.replies["2-step worker"]
        moved = seen.before.x - seen.after.x
        if len(one) and len(two):
            assert close(moved, 1.5 * (one.delta[0] + two.delta[0] / 2) / 2)
        elif len(one) or len(two):
            alone += 1
            assert close(moved, (one if len(one) else two).delta[0])
        else:
            assert close(moved, [0.0])
    assert alone > 3
