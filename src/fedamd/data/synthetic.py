"""Problems whose constants (L, μ, σ, L_σ, x*, F*) are known, to hold algorithms and theory against.

Every problem has clients of its own, all of one size, so the uniform average F = (1/M) Σ F_m is the mean over all
samples; and its test set is the training samples, so the test loss is F itself. Everything is float64.

quadratic  ℓ(x; z, h) = ½ Σ_i h_i (x_i − z_i)², with the curvature h of the sample's client
logistic   ℓ(x; z, y) = log(1 + exp(−y zᵀx)) + (λ/2) ‖x‖², with y = ±1 for the targets 1 and 0
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from fedamd.data.base import Constants, Dataset, Partition
from fedamd.data.memory import refuse_what_cannot_fit
from fedamd.data.seeding import generator
from fedamd.errors import FedamdError

Array = NDArray[np.float64]

NEWTON_STEPS = 200
GRADIENT_TOLERANCE = 1e-14


def quadratic_losses(x: Tensor, inputs: Tensor) -> Tensor:
    """ℓ of every sample of the quadratic problem, whose inputs (n, 2, d) are the centres z and the curvatures h."""
    centre, curvature = inputs.unbind(1)
    return 0.5 * (curvature * (x - centre) ** 2).sum(-1)


def logistic_losses(x: Tensor, inputs: Tensor, targets: Tensor, regularisation: float) -> Tensor:
    """ℓ of every sample of the logistic problem."""
    margins = (2 * targets - 1) * (inputs @ x)
    return softplus(-margins) + 0.5 * regularisation * (x @ x)


def quadratic(
    clients: int = 100,
    samples: int = 20,  # of each client
    dimension: int = 10,  # d
    mu: float = 0.1,  # μ, the smallest eigenvalue
    L: float = 1.0,  # the largest
    sigma: float = 1.0,  # σ, the noise of one sample's gradient
    heterogeneity: float = 1.0,  # how far clients are apart; at 0 they are alike
    seed: int = 0,
) -> Dataset:
    """M clients with `samples` samples each; F has eigenvalues from μ to L, no F_m a larger one.

    `heterogeneity` is the standard deviation of the clients' centres and lets their curvatures differ; at 0 all F_m are
    equal up to a constant. The noise of the samples' centres has mean zero within each client and gives the gradients
    the σ asked for, at every x. The curvature is shared within a client, so L_σ = 0.
    """
    _check_sizes(clients, samples, dimension, vectors=4)
    _check_spectrum(dimension, mu, L)
    _check_not_negative(sigma=sigma, heterogeneity=heterogeneity)
    if samples == 1 and sigma > 0:
        raise FedamdError("one sample a client leaves no room for noise; use sigma = 0 or at least 2 samples")
    rng = generator(seed)
    curvature = _curvatures(rng, clients, np.linspace(mu, L, dimension), L, heterogeneity)
    noise = _noise(rng, curvature, samples, sigma)
    centres = heterogeneity * rng.standard_normal((clients, dimension))[:, None] + noise

    spread = np.broadcast_to(curvature[:, None], centres.shape)
    inputs = torch.from_numpy(np.stack([centres, spread], axis=2).reshape(clients * samples, 2, dimension))
    optimum = torch.from_numpy((curvature * centres.mean(1)).sum(0) / curvature.sum(0))
    constants = Constants(
        L=L, mu=mu, sigma=sigma, L_sigma=0.0, optimum=optimum, minimum=quadratic_losses(optimum, inputs).mean().item()
    )
    targets = torch.zeros(len(inputs), dtype=torch.float64)
    return _dataset("quadratic", inputs, targets, 0, clients, constants)


def logistic(
    clients: int = 100,
    samples: int = 20,  # of each client
    dimension: int = 10,  # d
    regularisation: float = 0.01,  # λ of ½λ‖x‖²
    heterogeneity: float = 1.0,  # how far clients are apart; at 0 they are alike
    seed: int = 0,
) -> Dataset:
    """M clients with `samples` labelled points each, drawn from logistic models that differ by `heterogeneity`.

    x* is found by Newton's method to a gradient of 1e-14. L is the largest eigenvalue of any ¼ Z_mᵀZ_m/n + λ, μ is λ, σ
    holds at x*, and L_σ bounds the per-sample curvatures ¼ z zᵀ: bounds that hold everywhere, not the tightest ones.
    """
    _check_sizes(clients, samples, dimension, vectors=4, matrices=2)
    _check_not_negative(heterogeneity=heterogeneity)
    if not 0 < regularisation < np.inf:
        raise FedamdError(f"regularisation must be above 0, or F may have no minimum; got {regularisation}")
    rng = generator(seed)
    shifts = heterogeneity * rng.standard_normal((clients, 1, dimension))
    points = (rng.standard_normal((clients, samples, dimension)) + shifts) / np.sqrt(dimension)
    models = rng.standard_normal(dimension) + heterogeneity * rng.standard_normal((clients, dimension))
    odds = 1 / (1 + np.exp(-np.einsum("msd,md->ms", points, models)))
    labels = rng.random((clients, samples)) < odds

    constants = _logistic_constants(points, np.where(labels, 1.0, -1.0), regularisation)
    inputs = torch.from_numpy(points.reshape(-1, dimension))
    return _dataset("logistic", inputs, torch.from_numpy(labels.reshape(-1)).long(), 2, clients, constants)


def _curvatures(rng: np.random.Generator, clients: int, spectrum: Array, L: float, heterogeneity: float) -> Array:
    """h_m (M, d): positive, at most L, and with mean `spectrum` over the clients."""
    deviations = rng.uniform(-1, 1, (clients, len(spectrum)))
    deviations -= deviations.mean(0)
    largest = np.abs(deviations).max(0)
    deviations /= np.where(largest > 0, largest, 1.0)
    room = heterogeneity / (1 + heterogeneity) * np.minimum(spectrum, L - spectrum)
    return np.asarray(spectrum + room * deviations, dtype=np.float64)


def _noise(rng: np.random.Generator, curvature: Array, samples: int, sigma: float) -> Array:
    """(M, samples, d) with mean zero in every client and σ² = max_m (1/n) Σ_j ‖h_m ∘ noise_mj‖²."""
    clients, dimension = curvature.shape
    noise = rng.standard_normal((clients, samples, dimension))
    noise -= noise.mean(1, keepdims=True)
    if sigma == 0:
        return np.zeros_like(noise)
    variances = ((curvature[:, None] * noise) ** 2).sum(2).mean(1)
    return np.asarray(noise * (sigma / np.sqrt(variances.max())), dtype=np.float64)


def _logistic_constants(points: Array, signs: Array, regularisation: float) -> Constants:
    _, samples, dimension = points.shape
    signed = points * signs[:, :, None]
    optimum = _newton(signed.reshape(-1, dimension), regularisation)
    gradients = -signed * _sigmoid(-(signed @ optimum))[:, :, None]
    deviations = gradients - gradients.mean(1, keepdims=True)
    grams = np.einsum("msi,msj->mij", points, points) / samples
    moments = np.einsum("ms,msi,msj->mij", (points**2).sum(2), points, points) / samples
    x = torch.from_numpy(optimum)
    losses = logistic_losses(
        x,
        torch.from_numpy(points.reshape(-1, dimension)),
        torch.from_numpy(signs.reshape(-1) > 0).long(),
        regularisation,
    )
    return Constants(
        L=float(np.linalg.eigvalsh(grams).max() / 4 + regularisation),
        mu=regularisation,
        sigma=float(np.sqrt((deviations**2).sum(2).mean(1).max())),
        L_sigma=float(np.sqrt(np.linalg.eigvalsh(moments).max()) / 4),
        optimum=x,
        minimum=losses.mean().item(),
    )


def _newton(signed: Array, regularisation: float) -> Array:
    """The x where ∇F = 0, for the points y·z; a step is halved until it shortens the gradient, as a small one must."""
    x = np.zeros(signed.shape[1])
    gradient = _gradient(x, signed, regularisation)
    for _ in range(NEWTON_STEPS):
        if np.linalg.norm(gradient) <= GRADIENT_TOLERANCE:
            return x
        weights = _sigmoid(signed @ x) * _sigmoid(-(signed @ x))
        hessian = (signed.T * weights) @ signed / len(signed) + regularisation * np.eye(len(x))
        step = np.linalg.solve(hessian, gradient)
        while np.linalg.norm(shorter := _gradient(x - step, signed, regularisation)) >= np.linalg.norm(gradient):
            step /= 2
            if not np.any(x - step != x):
                return x  # as near as float64 can tell
        x, gradient = x - step, shorter
    raise FedamdError("Newton's method did not find the minimum of this logistic problem; use more regularisation")


def _gradient(x: Array, signed: Array, regularisation: float) -> Array:
    return np.asarray(-(_sigmoid(-(signed @ x)) @ signed) / len(signed) + regularisation * x, dtype=np.float64)


def _sigmoid(t: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -t)), dtype=np.float64)


def _dataset(name: str, inputs: Tensor, targets: Tensor, classes: int, clients: int, constants: Constants) -> Dataset:
    owners = Partition(torch.arange(len(inputs)), torch.arange(0, len(inputs) + 1, len(inputs) // clients))
    return Dataset(name, inputs, targets, inputs, targets, classes, owners, constants)


def _check_sizes(clients: int, samples: int, dimension: int, vectors: int, matrices: int = 0) -> None:
    """Whole numbers, and together no more than fits into memory while the problem is made.

    That takes so many `vectors` a sample, and `matrices` of d × d a client.
    """
    for name, value in (("clients", clients), ("samples", samples), ("dimension", dimension)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FedamdError(f"{name} is a whole number of at least 1; got {value!r}")
    what = f"{clients} clients with {samples} samples of dimension {dimension}"
    numbers = clients * dimension * (samples * vectors + dimension * matrices)
    refuse_what_cannot_fit(what, numbers, "use fewer, or smaller, samples")


def _check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < np.inf:
            raise FedamdError(f"{name} is a finite number of at least 0; got {value}")


def _check_spectrum(dimension: int, mu: float, L: float) -> None:
    if not 0 < mu <= L < np.inf:
        raise FedamdError(f"a quadratic problem needs 0 < mu ≤ L; got mu = {mu} and L = {L}")
    if dimension == 1 and mu != L:
        raise FedamdError(f"in dimension 1 there is one eigenvalue, so mu = L; got mu = {mu} and L = {L}")
