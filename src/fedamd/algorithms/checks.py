"""Checks of hyper-parameters: each names the field, the value it has and the values it may have."""

import math

from fedamd.errors import FedamdError


def positive(algorithm: object, *names: str) -> None:
    """These fields are finite and > 0."""
    for name in names:
        value = getattr(algorithm, name)
        if not (math.isfinite(value) and value > 0):
            raise FedamdError(f"{name} must be a finite number above 0, not {value}")


def not_negative(algorithm: object, *names: str) -> None:
    """These fields are finite and ≥ 0."""
    for name in names:
        value = getattr(algorithm, name)
        if not (math.isfinite(value) and value >= 0):
            raise FedamdError(f"{name} must be a finite number of at least 0, not {value}")


def whole(algorithm: object, *names: str) -> None:
    """These fields are integers ≥ 1."""
    for name in names:
        value = getattr(algorithm, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FedamdError(f"{name} must be a whole number of at least 1, not {value!r}")


def batch_size(algorithm: object, *names: str) -> None:
    """These fields are "full" or integers ≥ 1."""
    for name in names:
        if (value := getattr(algorithm, name)) != "full":
            if isinstance(value, str):
                raise FedamdError(f'{name} must be "full" or a whole number of at least 1, not {value!r}')
            whole(algorithm, name)


def between(algorithm: object, low: float, high: float, *names: str) -> None:
    """These fields lie in [low, high]."""
    for name in names:
        value = getattr(algorithm, name)
        if not low <= value <= high:
            raise FedamdError(f"{name} must lie in [{low:g}, {high:g}], not {value}")


def one_of(algorithm: object, name: str, *allowed: str) -> None:
    """This field is one of the allowed words."""
    if (value := getattr(algorithm, name)) not in allowed:
        raise FedamdError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
