"""The grid of a sweep: which keys vary over which values, and a folder name for every point of it."""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fedamd.errors import FedamdError
from fedamd.runs.config import parse_setting

Point = dict[str, Any]  # the keys a sweep varies, and one value of each

_EXAMPLE = 'as in algorithm.eta_l=0.1,0.03 or, where values have commas, algorithm.pattern=\'["0,1", "0,0,1"]\''
_LONGEST = 120  # of a folder's name, which file systems limit


@dataclass(frozen=True)
class Grid:
    """Which keys vary over which values; points that differ in `seed` alone are repetitions of one setting."""

    axes: dict[str, list[Any]]

    def __post_init__(self) -> None:
        if not self.axes:
            raise FedamdError(f"a sweep needs at least one --grid key=value,value,… {_EXAMPLE}")
        for key, values in self.axes.items():
            if not values:
                raise FedamdError(f"--grid {key} has no values")
            if twice := [value for index, value in enumerate(values) if value in values[:index]]:
                raise FedamdError(f"--grid {key} has the value {json.dumps(twice[0])} twice")

    @classmethod
    def parse(cls, words: Iterable[str]) -> "Grid":
        """From `key=value,value,…` words, or `key=[value, value]` with the values in TOML."""
        axes: dict[str, list[Any]] = {}
        for word in words:
            key, equals, text = (part.strip() for part in word.partition("="))
            if not key or not equals or not text:
                raise FedamdError(f"--grid {word}: expected key=value,value,… {_EXAMPLE}")
            if key in axes:
                raise FedamdError(f"--grid {key} is given twice; put all its values into one")
            axes[key] = _values(key, text)
        return cls(axes)

    def points(self) -> list[Point]:
        """All combinations, the last key varying fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]

    def names(self) -> list[str]:
        """A folder name for every point that says its settings: eta_l=0.03,eta_s=1.0,seed=0.

        Where that is no good name, or another point's too, a hash of the settings tells it apart.
        """
        points, short = self.points(), self.short_keys()
        written = [",".join(f"{short[key]}={_word(value)}" for key, value in point.items()) for point in points]
        safe = [re.sub(r"[^\w=,.+-]", "_", text)[:_LONGEST] for text in written]
        count = Counter(safe)
        return [
            name if name == text and count[name] == 1 else f"{name}-{_digest(point)}"
            for name, text, point in zip(safe, written, points, strict=True)
        ]

    def short_keys(self) -> dict[str, str]:
        """The last part of each key, or all of it where two end alike."""
        count = Counter(key.rpartition(".")[2] for key in self.axes)
        return {key: last if count[last := key.rpartition(".")[2]] == 1 else key for key in self.axes}


def _values(key: str, text: str) -> list[Any]:
    _, whole = parse_setting(f"{key}={text}")
    if isinstance(whole, list):
        return whole
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(pieces):
        raise FedamdError(f"--grid {key}={text}: a value is missing between two commas")
    return [parse_setting(f"{key}={piece}")[1] for piece in pieces]


def _word(value: Any) -> str:
    """A value in a name; a comma in it must not read as the next key."""
    return (value if isinstance(value, str) else json.dumps(value)).replace(",", ";")


def _digest(point: Point) -> str:
    return hashlib.sha256(json.dumps(point).encode()).hexdigest()[:8]
