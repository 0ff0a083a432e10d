"""The constants of the theory, estimated from a model and data: L, σ, L_σ, heterogeneity, μ and F(x_0) − F*.

The assumptions speak of all x; an estimate speaks of the point x it is made at (the same thing where the Hessian does
not depend on x). The assumptions bound every client, so L, σ and L_σ are the largest over the clients that were probed:
all of them, unless the budget is too small to give each its least share.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from fedamd.data.base import Clients, Dataset
from fedamd.errors import FedamdError
from fedamd.theory.intervals import Estimate, Mean, largest, mean_of, mean_over_clients
from fedamd.theory.lanczos import Eigenpair, extreme_eigenpairs
from fedamd.theory.landscape import Landscape
from fedamd.theory.problem import Problem

Progress = Callable[[str, float], None]  # what is being estimated, and how far it is (0 … 1)
Item = TypeVar("Item")
LEAST_PRODUCTS, MOST_PRODUCTS = 12, 60  # operator applications of a spectral estimate, as the budget allows
LEAST_SAMPLES = 8  # of a client that is probed at all


@dataclass(frozen=True)
class Estimates:
    """One estimate per constant; μ only where the problem was said to be convex."""

    L: Estimate
    sigma: Estimate
    L_sigma: Estimate
    heterogeneity: Estimate  # (1/M)·Σ‖∇F_m(x) − ∇F(x)‖²
    delta: Estimate  # F(x) − F*, with the stated lower bound in place of F*
    mu: Estimate | None = None

    def applied_to(self, problem: Problem) -> Problem:
        """The problem with its constants replaced by the estimated values."""
        return replace(
            problem,
            L=self.L.value,
            sigma=self.sigma.value,
            L_sigma=self.L_sigma.value,
            delta=self.delta.value,
            mu=self.mu.value if self.mu else None,
        )


class Probe(NamedTuple):
    """The samples drawn from one client, and how many it owns."""

    samples: Tensor
    owned: int


def estimate_constants(
    model: nn.Module,
    dataset: Dataset,
    partition: Clients,
    x: Tensor,
    *,
    budget: int,
    seed: int = 0,
    convex: bool = False,
    minimum: float = 0.0,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate all constants at x from at most `budget` gradient samples.

    The loss is the one training uses: the model's own `loss(outputs, targets)`, else by the kind of targets.
    `minimum` is a lower bound of F (0 for non-negative losses), so `delta` is an upper bound of F(x) − F*.
    `convex` asks for μ as well, the smallest eigenvalue of F's Hessian.
    """
    if not 0 < confidence < 1:
        raise FedamdError(f"confidence is {confidence}: it is a probability, give 0 < confidence < 1")
    shares = {"L": 4, "sigma": 2, "L_sigma": 6, "heterogeneity": 2, "delta": 1} | ({"mu": 4} if convex else {})
    part = budget / sum(shares.values())
    landscape = Landscape(model, dataset, x)
    survey = _Survey(landscape, partition, torch.Generator().manual_seed(seed), confidence, progress or _silent)
    return Estimates(
        L=survey.smoothness(part * shares["L"]),
        sigma=survey.noise(part * shares["sigma"]),
        L_sigma=survey.average_smoothness(part * shares["L_sigma"]),
        heterogeneity=survey.heterogeneity(part * shares["heterogeneity"]),
        delta=survey.gap(part * shares["delta"], minimum),
        mu=survey.strong_convexity(part * shares["mu"]) if convex else None,
    )


class _Survey:
    """Where the estimates are made; every method is one constant within its own budget."""

    def __init__(
        self,
        landscape: Landscape,
        partition: Clients,
        generator: torch.Generator,
        confidence: float,
        progress: Progress,
    ) -> None:
        self.landscape, self.partition, self.generator = landscape, partition, generator
        self.confidence, self.progress = confidence, progress

    def smoothness(self, budget: float) -> Estimate:
        """L: the largest |eigenvalue| of a client's Hessian."""
        products = self._products(budget, 2)
        return self._largest("L", budget / (2 * products + 2), lambda probe: self._spectral_norm(probe, products))

    def noise(self, budget: float) -> Estimate:
        """σ: the largest over clients of sqrt(E‖∇ℓ(x; z) − ∇F_m(x)‖²)."""
        return self._largest("sigma", budget / 2, self._gradient_variance).root()

    def average_smoothness(self, budget: float) -> Estimate:
        """L_σ: the largest over clients and directions u of sqrt(E‖(∇²ℓ(x; z) − ∇²F_m(x))·u‖²/‖u‖²)."""
        products = self._products(budget, 4)
        samples = budget / (4 * products + 2)
        return self._largest("L_sigma", samples, lambda probe: self._curvature_variance(probe, products)).root()

    def heterogeneity(self, budget: float) -> Estimate:
        """(1/M)·Σ‖∇F_m(x) − ∇F(x)‖², from whole clients: parts of clients would add their noise to it."""
        before, clients = self.landscape.samples_used, len(self.partition)
        chosen = self._affordable_clients(budget)
        gradients = torch.stack(
            [self.landscape.gradient(self.partition.samples(m)) for m in self._reporting("heterogeneity", chosen)]
        )
        centred = (gradients - gradients.mean(0)).square().sum(1)
        if len(chosen) < clients:  # unbiased for the population of M clients
            centred = centred * (len(chosen) / (len(chosen) - 1) * (clients - 1) / clients)
        mean = mean_of(centred, clients)
        low, high = mean.interval(self.confidence)
        return Estimate(mean.value, max(0.0, low), high, self.landscape.samples_used - before)

    def gap(self, budget: float, minimum: float) -> Estimate:
        """F(x) − minimum."""
        before = self.landscape.samples_used
        probes = self._reporting("delta", self._probes("delta", budget))
        mean = self._over_clients([mean_of(self.landscape.losses(probe.samples), probe.owned) for probe in probes])
        low, high = mean.interval(self.confidence)
        if mean.value <= minimum:
            raise FedamdError(f"the loss at x is {mean.value:g}, not above the lower bound {minimum:g} given for it")
        return Estimate(
            mean.value - minimum, max(0.0, low - minimum), high - minimum, self.landscape.samples_used - before
        )

    def strong_convexity(self, budget: float) -> Estimate:
        """μ: the smallest eigenvalue of F's Hessian, for a convex F."""
        before, products = self.landscape.samples_used, self._products(budget, 2)
        probes = self._probes("mu", budget / (2 * products + 2))
        samples = torch.cat([probe.samples for probe in probes])
        weights = torch.cat([self._weights(probe) for probe in probes]) / len(probes)
        done = 0

        def hessian(v: Tensor) -> Tensor:
            nonlocal done
            done += 1
            self.progress("mu", min(1.0, done / products))
            return self.landscape.curvature(samples, weights, v)

        smallest, _ = extreme_eigenpairs(hessian, self._direction(), products)
        mean = self._over_clients([self._rayleigh(probe, smallest) for probe in probes])
        low, high = mean.interval(self.confidence)
        self.progress("mu", 1.0)
        if high + smallest.residual <= 0:
            raise FedamdError(f"F is not convex at x: its Hessian has an eigenvalue {mean.value:g}; leave mu out")
        return Estimate(
            mean.value,
            max(0.0, low - smallest.residual),
            high + smallest.residual,
            self.landscape.samples_used - before,
        )

    def _spectral_norm(self, probe: Probe, products: int) -> tuple[Mean, float]:
        weights = self._weights(probe)
        pairs = extreme_eigenpairs(
            lambda v: self.landscape.curvature(probe.samples, weights, v), self._direction(), products
        )
        top = max(pairs, key=lambda pair: abs(pair.value))
        mean = self._rayleigh(probe, top)
        return mean._replace(value=abs(mean.value)), top.residual

    def _gradient_variance(self, probe: Probe) -> tuple[Mean, float]:
        centre = self.landscape.gradient(probe.samples)
        chunks = self.landscape.gradients(probe.samples)
        distances = torch.cat([(rows - centre).square().sum(1) for rows in chunks])
        return mean_of(distances * _unbiased(probe), probe.owned), 0.0

    def _curvature_variance(self, probe: Probe, products: int) -> tuple[Mean, float]:
        def centred(v: Tensor) -> Tensor:
            rows = self.landscape.curvatures(probe.samples, v)
            return rows - rows.mean(0)

        def covariance(v: Tensor) -> Tensor:  # E[(H_z − H)²]·v, as the rows of `centred` sum to zero
            return self.landscape.curvatures(probe.samples, centred(v)).mean(0)

        _, top = extreme_eigenpairs(covariance, self._direction(), products)
        return mean_of(centred(top.vector).square().sum(1) * _unbiased(probe), probe.owned), top.residual

    def _rayleigh(self, probe: Probe, pair: Eigenpair) -> Mean:
        """vᵀHv sample by sample: what the draw of samples leaves uncertain in an eigenvalue."""
        return mean_of(self.landscape.curvatures(probe.samples, pair.vector) @ pair.vector, probe.owned)

    def _largest(self, name: str, samples: float, measure: Callable[[Probe], tuple[Mean, float]]) -> Estimate:
        before = self.landscape.samples_used
        parts = [measure(probe) for probe in self._reporting(name, self._probes(name, samples))]
        return largest(parts, self.confidence, self.landscape.samples_used - before)

    def _over_clients(self, parts: list[Mean]) -> Mean:
        return mean_over_clients(parts, len(self.partition))

    def _products(self, budget: float, samples_each: int) -> int:
        """As many operator applications as pay for all samples of all clients, within reason."""
        affordable = int(budget / (samples_each * sum(self.partition.sizes))) - 1
        return min(MOST_PRODUCTS, max(LEAST_PRODUCTS, affordable))

    def _probes(self, name: str, samples: float) -> list[Probe]:
        """Draw about `samples` samples, as many from every client; from fewer clients where that would be too few."""
        clients = len(self.partition)
        count = min(clients, int(samples // LEAST_SAMPLES))
        if count < 1:
            raise FedamdError(
                f"the budget is too small to estimate {name}: it leaves {samples:.1f} samples for a probe"
            )
        each = int(samples // count)
        chosen = torch.randperm(clients, generator=self.generator)[:count].sort().values
        return [self._draw(self.partition.samples(int(m)), each) for m in chosen]

    def _draw(self, owned: Tensor, count: int) -> Probe:
        if count >= len(owned):
            return Probe(owned, len(owned))
        order = torch.randperm(len(owned), generator=self.generator)[:count]
        return Probe(owned[order.to(owned.device)], len(owned))

    def _affordable_clients(self, budget: float) -> list[int]:
        chosen: list[int] = []
        for m in torch.randperm(len(self.partition), generator=self.generator).tolist():
            budget -= self.partition.sizes[m]
            if budget < 0:
                break
            chosen.append(m)
        if len(chosen) < min(3, len(self.partition)):
            raise FedamdError("the budget is too small to estimate the heterogeneity: it must pay for 3 whole clients")
        return sorted(chosen)

    def _weights(self, probe: Probe) -> Tensor:
        count = len(probe.samples)
        return torch.full((count,), 1 / count, dtype=self.landscape.x.dtype, device=self.landscape.x.device)

    def _direction(self) -> Tensor:
        return torch.randn(len(self.landscape.x), generator=self.generator, dtype=torch.float64).to(self.landscape.x)

    def _reporting(self, name: str, items: list[Item]) -> Iterator[Item]:
        for done, item in enumerate(items):
            self.progress(name, done / len(items))
            yield item
        self.progress(name, 1.0)


def _unbiased(probe: Probe) -> float:
    """Turns a variance about the probe's own mean into one about the client's: 1 where the probe is the client."""
    count, owned = len(probe.samples), probe.owned
    return 1.0 if count == owned else count / (count - 1) * (owned - 1) / owned


def _silent(name: str, fraction: float) -> None:
    """No progress is shown."""
