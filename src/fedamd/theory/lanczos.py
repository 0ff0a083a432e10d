"""The largest and smallest eigenvalue of a symmetric operator that can only be applied to vectors.

Power iteration whose iterates are kept (Lanczos): from the same products it finds both ends of the spectrum, and far
sooner than the last iterate alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Eigenpair(NamedTuple):
    """λ = vᵀHv and v; some eigenvalue of H lies within `residual` = ‖Hv − λv‖ of λ."""

    value: float
    vector: Tensor
    residual: float


def extreme_eigenpairs(apply: Callable[[Tensor], Tensor], start: Tensor, products: int) -> tuple[Eigenpair, Eigenpair]:
    """(smallest, largest) after at most `products` applications, fewer where the Krylov space is exhausted."""
    basis = [start / start.norm()]
    images: list[Tensor] = []
    for _ in range(max(1, min(products, len(start)))):
        image = apply(basis[-1])
        images.append(image)
        remainder = _orthogonal(image, basis)
        if float(remainder.norm()) <= 10 * torch.finfo(start.dtype).eps * float(image.norm()):
            break
        basis.append(remainder / remainder.norm())
    V, HV = torch.stack(basis[: len(images)]), torch.stack(images)
    projected = V @ HV.T
    coordinates = torch.linalg.eigh((projected + projected.T) / 2).eigenvectors
    return _pair(V, HV, coordinates[:, 0]), _pair(V, HV, coordinates[:, -1])


def _orthogonal(vector: Tensor, basis: list[Tensor]) -> Tensor:
    """The part outside the span, taken twice because once leaves rounding error behind."""
    V = torch.stack(basis)
    for _ in range(2):
        vector = vector - V.T @ (V @ vector)
    return vector


def _pair(V: Tensor, HV: Tensor, coordinates: Tensor) -> Eigenpair:
    v, image = coordinates @ V, coordinates @ HV
    norm = v.norm()
    v, image = v / norm, image / norm
    value = v @ image
    return Eigenpair(float(value), v, float((image - value * v).norm()))
