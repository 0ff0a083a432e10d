"""Unbiased compressors Q of a vector: E Q(v) = v and E‖Q(v) − v‖² ≤ ω·‖v‖², with the bits that Q(v) travels in.

A number travels in the bits of its type (32 for float32). Their randomness is addressed by round and client, so whoever
receives Q(v) knows which coordinates were drawn without being told.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedamd.algorithms.base import Compressed

Uniforms = Callable[[int], Tensor]  # `uniforms(count)`: that many random numbers in [0, 1) for each vector


@dataclass(frozen=True)
class Identity:
    """Q(v) = v; ω = 0."""

    def __call__(self, vector: Tensor, uniforms: Uniforms) -> Compressed:  # noqa: ARG002  nothing random
        return Compressed(vector, vector.shape[-1] * _bits_of_a_number(vector))


@dataclass(frozen=True)
class RandK:
    """k random coordinates, each times d/k, the others 0; ω = d/k − 1. Only the k numbers travel."""

    fraction: float  # k/d

    def __call__(self, vector: Tensor, uniforms: Uniforms) -> Compressed:
        d = vector.shape[-1]
        k = max(1, round(self.fraction * d))
        chosen = uniforms(d).topk(k, dim=-1, largest=False).indices
        kept = torch.zeros_like(vector).scatter(-1, chosen, d / k)
        return Compressed(vector * kept, k * _bits_of_a_number(vector))


@dataclass(frozen=True)
class Quantiser:
    """QSGD (Alistarh et al., NeurIPS 2017): |v_j|/‖v‖ rounded up or down at random to a multiple of 1/s.

    ω = min(d/s², √d/s). What travels is the norm as one number, and for each of the d coordinates a sign of 1 bit and a
    level 0 … s of ⌈log₂(s + 1)⌉ bits.
    """

    levels: int  # s

    def __call__(self, vector: Tensor, uniforms: Uniforms) -> Compressed:
        d = vector.shape[-1]
        norm = vector.norm(dim=-1, keepdim=True)
        exact = vector.abs() / norm.clamp_min(torch.finfo(vector.dtype).tiny) * self.levels
        below = exact.floor()
        level = below + (uniforms(d) < exact - below)
        bits = _bits_of_a_number(vector) + d * (1 + math.ceil(math.log2(self.levels + 1)))
        return Compressed(norm * vector.sign() * level / self.levels, bits)


Compressor = Identity | RandK | Quantiser


def _bits_of_a_number(vector: Tensor) -> int:
    return vector.element_size() * 8
