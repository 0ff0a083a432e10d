"""Tuning with nothing but arithmetic: points that fill a space evenly, and successive halving.

Point 0 is the published one; the others are Halton's (radical inverses in the bases 2, 3, 5, …), the same for every
method whose space has as many sides, so no method has luckier draws than another.
"""

from collections.abc import Mapping
from typing import Any

from fedamd.algorithms.space import Space

_BASES = (2, 3, 5, 7, 11, 13)
Point = dict[str, Any]


def points(space: Space, defaults: Mapping[str, Any], count: int) -> list[Point]:
    """So many different points of a space; fewer where it has no more."""
    middle = {name: where.at(0.5) for name, where in space.items()}
    found = [{**middle, **defaults}] if space else [{}]
    for number in range(1, 20 * count):
        point = {
            name: where.at(radical_inverse(number, base))
            for (name, where), base in zip(space.items(), _BASES, strict=False)
        }
        if len(found) == count:
            break
        if point not in found:
            found.append(point)
    return found


def radical_inverse(number: int, base: int) -> float:
    """The number's digits in this base, mirrored at the point: 6 = 110₂ is 0.011₂ = 0.375."""
    value, share = 0.0, 1.0 / base
    while number:
        number, digit = divmod(number, base)
        value += digit * share
        share /= base
    return value


def best(scores: Mapping[int, float], count: int) -> list[int]:
    """The `count` trials with the highest scores, best first; of equal ones the earlier."""
    return sorted(scores, key=lambda trial: (-scores[trial], trial))[:count]
