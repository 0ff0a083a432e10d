"""Heterogeneous, strongly convex quadratics without noise: who reaches the optimum of F, and where FedAvg ends.

Client i has F_i = ½ Σ_j h_ij (x_j − z_ij)², so x*_j = Σ_i h_ij z_ij / Σ_i h_ij. K local steps from x end at
z_ij + (1 − η_l h_ij)^K (x_j − z_ij). FedAvg is at rest where the mean of x_j minus that is zero:
Σ_i a_ij (x_j − z_ij) = 0 with a_ij = 1 − (1 − η_l h_ij)^K, so it ends at Σ_i a_ij z_ij / Σ_i a_ij. That is x* only
if a_ij is proportional to h_ij: for K = 1, or for equal curvatures.
"""

import pytest
import torch

from fedamd.algorithms import BVRLSGD, FedAMD, FedAvg, FedDyn, FedLin, FedProx, Mime, Scaffold
from support import close, optimum, quadratic_problem, simulate

CENTRES = [(4.0, -2.0), (-3.0, 1.0), (0.5, 6.0)]
CURVATURES = [(1.0, 3.0), (4.0, 1.0), (2.0, 2.0)]
PROBLEM = quadratic_problem(*([pair] for pair in zip(CENTRES, CURVATURES, strict=True)))
STEPS = {"eta_l": 0.1, "steps": 4}


def test_the_optimum_by_hand():
    """(1·4 − 4·3 + 2·½)/7 = −1 and (−3·2 + 1·1 + 2·6)/6 = 7/6."""
    assert close(optimum(PROBLEM), [-1.0, 7 / 6])


@pytest.mark.parametrize(
    ("method", "cohort", "rounds"),
    [
        (Scaffold(**STEPS), 3, 30),
        (Scaffold(**STEPS), 2, 50),
        (Scaffold(**STEPS, option="I", start_up="zeros"), 2, 50),
        (FedLin(**STEPS), 3, 30),
        (FedDyn(**STEPS, alpha=2.0), 3, 45),
        (FedDyn(**STEPS, alpha=2.0), 2, 75),
        (FedAMD(**STEPS, tau=2), 3, 60),
        (FedAMD(**STEPS, tau=2, eta_s=0.5), 2, 100),
        (FedAMD(**STEPS, p=0.5, eta_s=0.5), 2, 200),
        (BVRLSGD(**STEPS), 3, 30),
        (BVRLSGD(**STEPS, participation="everyone"), 1, 30),
        (Mime(**STEPS, beta=0.2), 3, 35),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_drift_corrected_methods_reach_the_optimum(method, cohort, rounds):
    run = simulate(method, PROBLEM, rounds, cohort=cohort, x0=(5.0, 5.0))
    assert close(run.state.x, optimum(PROBLEM), 1e-8)


def fedavg_limit(eta_l: float, steps: int) -> torch.Tensor:
    z, h = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)
    a = 1 - (1 - eta_l * h) ** steps
    return (a * z).sum(0) / a.sum(0)


def test_fedavg_ends_elsewhere():
    """It converges (its limit is reached to 1e-9), but to the point derived above, which is 0.2 away from x*."""
    run = simulate(FedAvg(**STEPS), PROBLEM, rounds=35, x0=(5.0, 5.0))
    limit = fedavg_limit(**STEPS)
    assert close(run.state.x, limit, 1e-9)
    assert (limit - optimum(PROBLEM)).abs().max() > 0.2


def test_fedavg_is_right_with_one_local_step():
    """K = 1 is gradient descent: the drift, and only the drift, is what keeps FedAvg from x*."""
    run = simulate(FedAvg(eta_l=0.3, steps=1), PROBLEM, rounds=60, x0=(5.0, 5.0))
    assert close(run.state.x, optimum(PROBLEM), 1e-9)


def test_fedprox_ends_elsewhere_too():
    """A proximal term shortens the drift; it does not remove it."""
    near, far = (
        (simulate(FedProx(**STEPS, mu=mu), PROBLEM, rounds=50, x0=(5.0, 5.0)).state.x - optimum(PROBLEM)).abs().max()
        for mu in (2.0, 0.0)
    )
    assert 0.05 < near < far
