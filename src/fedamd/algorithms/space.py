"""Where a method's hyper-parameters are searched: each method declares its own, its published values inside.

A range turns a number of [0, 1) into a value, so that any sampler can draw from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Log:
    """From low to high, every factor as likely as another: for rates."""

    low: float
    high: float

    def at(self, u: float) -> float:
        """The value at the fraction u of the range, to four digits: nobody tunes the fifth."""
        return float(f"{self.low * (self.high / self.low) ** u:.4g}")


@dataclass(frozen=True)
class Linear:
    """From low to high, every value as likely as another: for weights and probabilities."""

    low: float
    high: float

    def at(self, u: float) -> float:
        """The value at the fraction u of the range, to four digits."""
        return float(f"{self.low + (self.high - self.low) * u:.4g}")


@dataclass(frozen=True)
class Choice:
    """One of these values."""

    values: tuple[float | str, ...]

    def at(self, u: float) -> float | str:
        """The value in whose share of [0, 1) u lies."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]


Range = Log | Linear | Choice
Space = Mapping[str, Range]  # the name of a hyper-parameter → where to look for it

LOCAL_RATE = Log(0.003, 0.3)  # η_l of K local steps: 0.01 … 0.1 in most papers
SERVER_RATE = Log(0.3, 3.0)  # η_s where 1 makes the mean of the clients' models the next one
GRADIENT_RATE = Log(0.01, 1.0)  # η_s where the server steps along a gradient
DAMPING = Log(0.03, 1.0)  # the share of the new gradient in a momentum: 0.1 in most papers
