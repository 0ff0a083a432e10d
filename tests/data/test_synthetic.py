"""The constants of the synthetic problems, recomputed from the samples alone."""

import pytest
import torch

from fedamd.data import load
from fedamd.data.synthetic import logistic, logistic_losses, quadratic, quadratic_losses
from fedamd.errors import FedamdError

QUADRATIC = {"clients": 7, "samples": 5, "dimension": 6, "mu": 0.2, "L": 3.0, "sigma": 0.7, "heterogeneity": 2.0}
LOGISTIC = {"clients": 6, "samples": 9, "dimension": 4, "regularisation": 0.05, "heterogeneity": 1.5}


def per_client(values, data):
    return values.reshape(len(data.clients), -1, *values.shape[1:])


def quadratic_gradients(x, data):
    """(M, n, d) per-sample gradients, by automatic differentiation."""
    jacobian = torch.autograd.functional.jacobian(lambda point: quadratic_losses(point, data.inputs), x)
    return per_client(jacobian, data)


def logistic_gradients(x, data, regularisation=0.05):
    def losses(point):
        return logistic_losses(point, data.inputs, data.targets, regularisation)

    return per_client(torch.autograd.functional.jacobian(losses, x), data)


def test_the_quadratic_loss_by_hand():
    """½ (2·(3 − 1)² + 4·(1 − 2)²) = ½ (8 + 4) = 6."""
    sample = torch.tensor([[[1.0, 2.0], [2.0, 4.0]]], dtype=torch.float64)
    assert quadratic_losses(torch.tensor([3.0, 1.0], dtype=torch.float64), sample).tolist() == [6.0]


def test_the_logistic_loss_by_hand():
    """zᵀx = 0 costs log 2 for either label; ‖x‖² = 4 adds 0.1/2 · 4 = 0.2."""
    x, z = torch.tensor([2.0, 0.0], dtype=torch.float64), torch.tensor([[0.0, 1.0]] * 2, dtype=torch.float64)
    losses = logistic_losses(x, z, torch.tensor([0, 1]), 0.1)
    assert losses.tolist() == pytest.approx([0.6931471805599453 + 0.2] * 2, abs=1e-15)


def test_the_label_one_is_the_positive_side():
    x = torch.tensor([5.0], dtype=torch.float64)
    losses = logistic_losses(x, torch.ones(2, 1, dtype=torch.float64), torch.tensor([1, 0]), 0.0)
    assert losses[0] < 0.01 < 5 < losses[1]


@pytest.mark.parametrize("data", [quadratic(**QUADRATIC), logistic(**LOGISTIC)], ids=["quadratic", "logistic"])
def test_the_shape_of_a_problem(data):
    assert data.inputs.dtype == data.test_inputs.dtype == torch.float64
    assert data.inputs is data.test_inputs
    assert data.constants.optimum.dtype == torch.float64
    assert len(set(data.clients.sizes)) == 1
    assert data.clients.order.tolist() == list(range(len(data.inputs)))
    assert len(data.targets) == len(data.inputs)


def test_the_quadratic_optimum_and_minimum():
    data = quadratic(**QUADRATIC)
    optimum = data.constants.optimum
    assert quadratic_gradients(optimum, data).mean((0, 1)).norm() < 1e-14
    assert data.constants.minimum == pytest.approx(quadratic_losses(optimum, data.inputs).mean().item(), abs=1e-15)
    assert quadratic_losses(optimum + 0.01, data.inputs).mean() > data.constants.minimum


def test_the_quadratic_spectrum():
    """F has eigenvalues 0.2 … 3 exactly; no client has more than 3, and clients differ."""
    curvature = per_client(quadratic(**QUADRATIC).inputs[:, 1], quadratic(**QUADRATIC))
    assert torch.equal(curvature, curvature[:, :1].expand_as(curvature))  # shared within a client: L_σ = 0
    spectrum = curvature.mean((0, 1))
    assert spectrum.min().item() == pytest.approx(0.2, abs=1e-14)
    assert spectrum.max().item() == pytest.approx(3.0, abs=1e-14)
    assert curvature.max() <= 3.0
    assert curvature.min() > 0
    assert curvature.std(0).max() > 0.1


def test_the_quadratic_noise_has_the_sigma_asked_for_anywhere():
    data = quadratic(**QUADRATIC)
    for x in (data.constants.optimum, torch.full((6,), 10.0, dtype=torch.float64)):
        gradients = quadratic_gradients(x, data)
        noise = gradients - gradients.mean(1, keepdim=True)
        assert noise.square().sum(2).mean(1).max().sqrt().item() == pytest.approx(0.7, rel=1e-12)


def test_without_heterogeneity_all_quadratic_clients_want_the_same():
    data = quadratic(**{**QUADRATIC, "heterogeneity": 0.0})
    gradients = quadratic_gradients(data.constants.optimum, data).mean(1)
    assert gradients.norm(dim=1).max() < 1e-14


def test_without_noise_a_quadratic_client_has_equal_samples():
    data = quadratic(**{**QUADRATIC, "sigma": 0.0})
    centres = per_client(data.inputs[:, 0], data)
    assert torch.equal(centres, centres[:, :1].expand_as(centres))


def test_the_logistic_optimum_and_minimum():
    data = logistic(**LOGISTIC)
    optimum = data.constants.optimum
    assert logistic_gradients(optimum, data).mean((0, 1)).norm() < 3e-14
    losses = logistic_losses(optimum, data.inputs, data.targets, 0.05)
    assert data.constants.minimum == pytest.approx(losses.mean().item(), abs=1e-15)


def test_newtons_method_survives_weak_regularisation():
    """One point alone is separable: the optimum, where the label pulls as hard as λ = 10⁻⁶, is far from the start."""
    data = logistic(clients=1, samples=1, dimension=1, regularisation=1e-6, heterogeneity=0.0)
    optimum = data.constants.optimum
    assert logistic_gradients(optimum, data, 1e-6).mean((0, 1)).abs().max() < 3e-14
    assert optimum.abs().item() > 1


def test_the_logistic_constants_bound_every_pair_of_points():
    data, constants = logistic(**LOGISTIC), logistic(**LOGISTIC).constants
    random = torch.Generator().manual_seed(0)
    tightest = 0.0
    for scale in (0.01, 1.0, 5.0):
        for _ in range(20):
            x = scale * torch.randn(4, generator=random, dtype=torch.float64)
            y = scale * torch.randn(4, generator=random, dtype=torch.float64)
            change = logistic_gradients(x, data) - logistic_gradients(y, data)
            distance = (x - y).norm()
            steepness = change.mean(1).norm(dim=1) / distance
            assert steepness.max() <= constants.L
            assert change.mean((0, 1)) @ (x - y) >= constants.mu * distance**2
            spread = (change - change.mean(1, keepdim=True)).square().sum(2).mean(1).sqrt() / distance
            assert spread.max() <= constants.L_sigma
            tightest = max(tightest, (steepness.max() / constants.L).item())
    assert tightest > 0.7  # the bound is near what is seen, not just large


def test_the_logistic_noise_at_the_optimum():
    data = logistic(**LOGISTIC)
    gradients = logistic_gradients(data.constants.optimum, data)
    noise = gradients - gradients.mean(1, keepdim=True)
    assert noise.square().sum(2).mean(1).max().sqrt().item() == pytest.approx(data.constants.sigma, rel=1e-12)


def test_logistic_labels_are_two_classes():
    data = logistic(**LOGISTIC)
    assert data.targets.dtype == torch.int64
    assert data.targets.unique().tolist() == [0, 1]
    assert data.classes == 2


@pytest.mark.parametrize("name", ["quadratic", "logistic"])
def test_the_seed_decides_the_problem(name):
    first, again, other = load(name, seed=1), load(name, seed=1), load(name, seed=2)
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("quadratic", {"mu": 0.0}, "0 < mu ≤ L; got mu = 0.0"),
        ("quadratic", {"mu": 2.0, "L": 1.0}, "0 < mu ≤ L"),
        ("quadratic", {"L": float("inf")}, "0 < mu ≤ L"),
        ("quadratic", {"dimension": 1}, "in dimension 1 there is one eigenvalue, so mu = L"),
        ("quadratic", {"samples": 1}, "leaves no room for noise"),
        ("quadratic", {"sigma": -1.0}, "sigma is a finite number of at least 0; got -1.0"),
        ("quadratic", {"heterogeneity": float("nan")}, "heterogeneity is a finite number"),
        ("quadratic", {"clients": 0}, "clients is a whole number of at least 1; got 0"),
        ("quadratic", {"samples": 2.5}, "samples is a whole number of at least 1; got 2.5"),
        ("quadratic", {"seed": -1}, "a seed is a whole number"),
        ("logistic", {"dimension": 0}, "dimension is a whole number of at least 1"),
        ("logistic", {"regularisation": 0.0}, "regularisation must be above 0"),
        ("logistic", {"regularisation": float("nan")}, "regularisation must be above 0"),
        ("logistic", {"heterogeneity": -0.1}, "heterogeneity is a finite number of at least 0"),
    ],
)
def test_impossible_problems(name, options, complaint):
    with pytest.raises(FedamdError, match=complaint):
        load(name, **options)


def test_the_smallest_problems():
    assert quadratic(clients=1, samples=1, dimension=1, mu=1.0, L=1.0, sigma=0.0).constants.minimum == 0.0
    assert logistic(clients=1, samples=1, dimension=1).constants.sigma == 0.0
