"""What the theory is asked about: a federation, how FedAMD is scheduled on it, and the accuracy that is wanted.

Symbols are the paper's (§4); ASCII names where it has Greek or primed ones: `b_small` is b', `delta` is F(x_0) − F*.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedamd.errors import FedamdError


class Rates(NamedTuple):
    """The two learning rates of FedAMD."""

    eta_l: float
    eta_s: float


class Proved(NamedTuple):
    """What the appendix proves with all its constants: with large batches of b, `rounds` rounds reach ε."""

    b: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything the admissible learning rates depend on."""

    M: int  # clients
    A: int  # clients that take part in a round
    K: int  # local steps of a miner
    b_small: int  # b', samples in a miner's batch
    L: float  # Assumption 4.1: every F_m is L-smooth
    L_sigma: float  # Assumption 4.3: average smoothness
    mu: float | None = None  # Assumption 4.10: PL constant; None where F is only known to be smooth (non-convex)
    p: float | None = None  # constant anchor probability; None takes the optimum p*/c
    c: float = 1.0  # divides p*: less computation for an older cache
    tau: int = 2  # period of the sequential schedule
    version: Literal["printed", "proved"] = "printed"  # of Theorem 4.8: see `constant`

    def __post_init__(self) -> None:
        for name in ("M", "A", "K", "b_small"):
            _require(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}: it counts something, give 1 or more")
        _require(self.A <= self.M, f"the cohort A = {self.A} is larger than the M = {self.M} clients there are")
        _require(_positive(self.L), f"L is {self.L}: a smoothness constant is a positive number")
        _require(_not_negative(self.L_sigma), f"L_sigma is {self.L_sigma}: it is a number of at least 0")
        if self.mu is not None:
            _require(_positive(self.mu), f"mu is {self.mu}: a PL constant is a positive number; leave it out otherwise")
            _require(self.mu <= self.L, f"mu = {self.mu} is above L = {self.L}, which no function can have")
        if self.p is not None:
            _require(
                0 < self.p < 1,
                f"p is {self.p}: p = 1 never moves the model, p = 0 never refreshes the cache; give 0 < p < 1",
            )
        _require(self.c >= 1 and math.isfinite(self.c), f"c is {self.c}: it divides p*, give 1 or more")
        _require(self.version in ("printed", "proved"), f'version is {self.version!r}: give "printed" or "proved"')
        _require(self.tau >= 2, f"tau is {self.tau}: a period needs an anchor round and a miner round, give 2 or more")

    @property
    def local_limit(self) -> float:
        """η_l ≤ min(1/(2√6·K·L), sqrt(b'/K)/(4√3·L_σ)): what the proofs for any cohort ask of the local rate."""
        limit = 1 / (2 * math.sqrt(6) * self.K * self.L)
        if self.L_sigma == 0:
            return limit
        return min(limit, math.sqrt(self.b_small / self.K) / (4 * math.sqrt(3) * self.L_sigma))

    @property
    def relative_mu(self) -> float:
        """μ/L: the PL constant of the problem scaled to L = 1, which is what the paper's O() expressions call μ."""
        if self.mu is None:
            raise FedamdError("this bound is for problems under the PL condition: give mu")
        return self.mu / self.L


@dataclass(frozen=True, kw_only=True)
class Problem(Setting):
    """A setting, its data and the accuracy to reach: ‖∇F‖² ≤ ε, or F − F* ≤ ε where μ is given."""

    sigma: float  # Assumption 4.2: noise σ of a single sample's gradient
    delta: float  # F(x_0) − F*
    epsilon: float
    n: int | None = None  # samples a client owns; None is the paper's online scenario, where they never run out
    b: int | None = None  # large batch; None takes the size the theorems ask for
    d: int | None = None  # parameters of the model, for bits and seconds

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_not_negative(self.sigma), f"sigma is {self.sigma}: it is a number of at least 0")
        _require(_positive(self.delta), f"delta is {self.delta}: F(x_0) − F* is positive unless there is nothing to do")
        _require(_positive(self.epsilon), f"epsilon is {self.epsilon}: an accuracy is a positive number")
        for name in ("n", "b", "d"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} is {value}: it counts something, give 1 or more")
        if self.n is not None and self.b is not None:
            _require(
                self.b <= self.n, f"the large batch b = {self.b} is larger than the n = {self.n} samples of a client"
            )
        reached = 2 * self.L * self.delta if self.mu is None else self.delta
        _require(
            self.epsilon < reached,
            f"epsilon = {self.epsilon:g} is met at x_0 already: choose it below "
            + (f"2·L·delta = {reached:g}" if self.mu is None else f"delta = {reached:g}"),
        )
        _require(self.epsilon / reached > 1e-60, f"epsilon = {self.epsilon:g} is too small for any computer to reach")

    # The paper's O() treats L and F(x_0) − F* as constants. Scaling x and F brings every problem to L = F(x_0) − F* = 1
    # without changing what an algorithm does, so its expressions are evaluated in those units.

    @property
    def gradient_epsilon(self) -> float:
        """ε of ‖∇F‖² ≤ ε in the units where L = F(x_0) − F* = 1: ε/(L·Δ)."""
        if self.mu is not None:
            raise FedamdError("this bound is for non-convex problems, with ε on ‖∇F‖²: leave mu out")
        return self.epsilon / (self.L * self.delta)

    @property
    def value_epsilon(self) -> float:
        """ε of F − F* ≤ ε in the same units: ε/Δ."""
        if self.mu is None:
            raise FedamdError("this bound is for problems under the PL condition, with ε on F − F*: give mu")
        return self.epsilon / self.delta

    @property
    def relative_noise(self) -> float:
        """σ²/b' in the same units: Table 1 has b' = 1, and Assumption 4.2 divides σ² by the batch size."""
        return self.sigma**2 / (self.b_small * self.L * self.delta)

    @property
    def required_batch(self) -> int:
        """The theorems' large batch: min(n, σ²/(Mε)), or min(n, σ²/(Mμε)) under PL, rounded up."""
        return self._at_most_n(self.sigma**2 / (self.M * self.epsilon * (1.0 if self.mu is None else self.mu)))

    @property
    def large_batch(self) -> int:
        """b: what the user gave, else `required_batch`, raised above b' where n allows: the theorems need b' < b."""
        return self.b or max(self.required_batch, self._at_most_n(self.b_small + 1))

    def noise_floor(self, b: int) -> float:
        """1[b < n]·σ²/(M·b): the variance that the large batches leave in the mean of the M caching gradients."""
        return 0.0 if self.n is not None and b >= self.n else self.sigma**2 / (self.M * b)

    def proof_batch(self, constant: float) -> int:
        """b: what the user gave, else the smallest above b' for which `constant`·σ²/(M·b) takes at most half of ε."""
        enough = 2 * constant * self.sigma**2 / (self.M * self.epsilon)
        return self.b or self._at_most_n(max(enough, self.b_small + 1))

    def _at_most_n(self, size: float) -> int:
        rounded = whole(size)
        return rounded if self.n is None else min(self.n, rounded)


def whole(value: float) -> int:
    """The next integer of at least 1; a value that is an integer but for floating-point error counts as one."""
    return max(1, math.ceil(value * (1 - 1e-12)))


@contextmanager
def countable() -> Iterator[None]:
    """Numbers whose bounds no float can hold are refused in words."""
    try:
        yield
    except (OverflowError, ZeroDivisionError):
        raise FedamdError(
            "the constants are too large, too small or too far apart: the bounds they give are beyond 1e308"
        ) from None


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise FedamdError(otherwise)


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _not_negative(value: float) -> bool:
    return math.isfinite(value) and value >= 0
