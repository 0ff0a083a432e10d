"""Devices of different speed: how many simulated seconds a client's part of an exchange takes.

A client receives what it is sent, computes its gradients, and sends its reply back:

    seconds = bits down / bandwidth down + gradient samples / speed + bits up / bandwidth up

An exchange takes as long as its slowest client, or as the deadline; who would be later than the deadline never replies.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from fedamd import draw
from fedamd.draw import Purpose
from fedamd.errors import FedamdError
from fedamd.participation.availability import table
from fedamd.registry import suggestion

_DEFAULTS = {"samples_per_second": 1000.0, "mbit_up": 10.0, "mbit_down": 50.0, "spread": 0.0}
_COLUMNS = ("samples_per_second", "mbit_up", "mbit_down")
_MEGA = 1e6
_WIDEST = 10  # standard deviations of a logarithm: exp(10) is 22,026


@dataclass(frozen=True)
class Device:
    """What one client computes and sends on."""

    samples_per_second: float
    mbit_up: float  # a second
    mbit_down: float

    def seconds(self, gradient_samples: int, bits_down: int, bits_up: int) -> float:
        """How long its part of an exchange takes."""
        transfer = bits_down / (self.mbit_down * _MEGA) + bits_up / (self.mbit_up * _MEGA)
        return transfer + gradient_samples / self.samples_per_second


@dataclass(frozen=True)
class Devices:
    """A device for every client."""

    devices: Sequence[Device]

    @classmethod
    def of(cls, described: Mapping[str, Any] | str, clients: int, seed: int) -> "Devices":
        """From the config: a table of medians with a spread, or a CSV file with a line for every client.

        With `spread` s, each of the three numbers of a client is its median times exp(s·z), z standard normal.
        """
        if isinstance(described, str):
            return cls(_read(Path(described), clients))
        for name, value in described.items():
            if name not in _DEFAULTS:
                raise FedamdError(
                    f"devices.{name}: unknown key{suggestion(name, _DEFAULTS)}; allowed are {', '.join(_DEFAULTS)}"
                )
            _check(f"devices.{name}", value, allow_zero=name == "spread")
        settings = _DEFAULTS | dict(described)
        if settings["spread"] > _WIDEST:
            raise FedamdError(f"devices.spread is {settings['spread']}: more than {_WIDEST} leaves no speed a speed")
        return cls([_drawn(settings, client, seed) for client in range(clients)])

    def __getitem__(self, client: int) -> Device:
        return self.devices[client]


def _drawn(settings: Mapping[str, float], client: int, seed: int) -> Device:
    def scaled(place: int, name: str) -> float:
        u = draw.uniform(seed, Purpose.DEVICE, client, place)
        return settings[name] * math.exp(settings["spread"] * NormalDist().inv_cdf(min(max(u, 1e-12), 1 - 1e-12)))

    return Device(*(scaled(place, name) for place, name in enumerate(_COLUMNS)))


def _read(path: Path, clients: int) -> list[Device]:
    found: dict[int, Device] = {}
    for number, row in enumerate(table(path, ("client", *_COLUMNS)), start=2):
        try:
            client, values = int(row["client"]), [float(row[name]) for name in _COLUMNS]
        except ValueError:
            raise FedamdError(f"{path}, line {number}: every column must hold a number") from None
        for name, value in zip(_COLUMNS, values, strict=True):
            _check(f"{path}, line {number}: {name}", value)
        found[client] = Device(*values)
    if missing := [client for client in range(clients) if client not in found]:
        raise FedamdError(f"{path} has no line for client {missing[0]}: every client 0 … {clients - 1} needs one")
    if unknown := [client for client in found if not 0 <= client < clients]:
        raise FedamdError(f"{path} names client {unknown[0]}, but the clients are 0 … {clients - 1}")
    return [found[client] for client in range(clients)]


def _check(what: str, value: Any, allow_zero: bool = False) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (value == 0 and not allow_zero):
        least = "of at least" if allow_zero else "above"
        raise FedamdError(f"{what} must be a finite number {least} 0, not {value!r}")
