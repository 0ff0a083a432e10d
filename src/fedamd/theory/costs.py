"""What one round of each method costs: gradient samples, d-vectors moved (both directions) and who waits for whom.

Samples count once per gradient evaluation and vectors once per transfer, as the paper's Table 2 does (a miner's first
step counts although its two gradients cancel). Costs of random rounds are expectations. The large batch is b, which is
n for full local gradients. Where the paper has no count (minibatch SGD, VR-MARINA) it follows from the method:
minibatch SGD, M clients average K batches of b' and exchange x for a gradient; VR-MARINA (without compression), with
probability p = b'/(b + b') all M clients send a gradient of b samples, else the difference of two on b' samples.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fedamd.errors import FedamdError
from fedamd.theory.probability import anchor_probability
from fedamd.theory.problem import Problem

BITS_PER_VALUE = 32


@dataclass(frozen=True)
class Speeds:
    """How fast ONE client is; clients work at the same time and the server does not wait for anything else."""

    bandwidth: float  # bits per second, either direction
    compute: float  # gradient samples per second

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.compute > 0):
            raise FedamdError(
                f"bandwidth ({self.bandwidth}) and compute ({self.compute}) are rates: give positive numbers"
            )


@dataclass(frozen=True)
class Work:
    """What one client does in one role of one round."""

    samples: float
    vectors: float

    def seconds(self, speeds: Speeds, d: int) -> float:
        return self.samples / speeds.compute + self.vectors * BITS_PER_VALUE * d / speeds.bandwidth


@dataclass(frozen=True)
class Stage:
    """Roles at work together, and the share of rounds that have this stage: it lasts as long as its slowest role."""

    share: float
    roles: tuple[Work, ...]


@dataclass(frozen=True)
class RoundCost:
    """The expected cost of a round, all clients together."""

    samples: float
    vectors: float
    stages: tuple[Stage, ...]

    def seconds(self, speeds: Speeds, d: int) -> float:
        return sum(stage.share * max(role.seconds(speeds, d) for role in stage.roles) for stage in self.stages)


NOTHING = RoundCost(0, 0, ())


def _together(clients: float, samples: float, vectors: float) -> RoundCost:
    """All clients do the same."""
    return RoundCost(clients * samples, clients * vectors, (Stage(1.0, (Work(samples, vectors),)),))


def minibatch_sgd(problem: Problem) -> RoundCost:
    """M·K·b' samples, 2M vectors."""
    return _together(problem.M, problem.K * problem.b_small, 2)


def fedavg(problem: Problem) -> RoundCost:
    """A·K·b' samples, 2A vectors."""
    return _together(problem.A, problem.K * problem.b_small, 2)


def scaffold(problem: Problem) -> RoundCost:
    """A·K·b' samples, 4A vectors: the control variates travel with the model."""
    return _together(problem.A, problem.K * problem.b_small, 4)


def bvr_l_sgd_period(problem: Problem) -> int:
    """⌈1 + b/(K·b')⌉: rounds between two synchronisations."""
    return 1 - -problem.large_batch // (problem.K * problem.b_small)


def bvr_l_sgd(problem: Problem) -> RoundCost:
    """A·2Kb' + 2Kb' + A·b/period samples, 2A + 2A/period + 2 vectors (3A + 2 for the paper's period of 2).

    All of S refine their estimate, then one of them runs the local steps; every period starts with large batches.
    """
    share = 1 / bvr_l_sgd_period(problem)
    local = 2 * problem.K * problem.b_small
    synchronise, refine, mine = Work(problem.large_batch, 2), Work(local, 2), Work(local, 2)
    return RoundCost(
        problem.A * (refine.samples + share * synchronise.samples) + mine.samples,
        problem.A * (refine.vectors + share * synchronise.vectors) + mine.vectors,
        (Stage(share, (synchronise,)), Stage(1.0, (refine,)), Stage(1.0, (mine,))),
    )


def vr_marina_probability(problem: Problem) -> float:
    """p = b'/(b + b'), the choice of Gorbunov et al. (2021): both kinds of round cost the same on average."""
    return problem.b_small / (problem.large_batch + problem.b_small)


def vr_marina(problem: Problem) -> RoundCost:
    """M·(p·b + (1 − p)·2b') samples, 2M vectors."""
    p = vr_marina_probability(problem)
    full, difference = Work(problem.large_batch, 2), Work(2 * problem.b_small, 2)
    samples = problem.M * (p * full.samples + (1 - p) * difference.samples)
    return RoundCost(samples, 2 * problem.M, (Stage(p, (full,)), Stage(1 - p, (difference,))))


def fedamd_sequential(problem: Problem) -> RoundCost:
    """One round of A anchors, then τ − 1 of A miners: the mean of a period."""
    anchors = 1 / problem.tau
    return _fedamd(problem, anchors, (Stage(anchors, (_anchor(problem),)), Stage(1 - anchors, (_miner(problem),))))


def fedamd_constant(problem: Problem) -> RoundCost:
    """A·(p·b + (1 − p)·2Kb') samples, A·(2p + 3(1 − p)) vectors."""
    p = anchor_probability(problem)
    anchor, miner = _anchor(problem), _miner(problem)
    only_anchors, only_miners = p**problem.A, (1 - p) ** problem.A
    mixed = Stage(max(0.0, 1 - only_anchors - only_miners), (anchor, miner))
    return _fedamd(problem, p, (Stage(only_anchors, (anchor,)), Stage(only_miners, (miner,)), mixed))


def large_batches_everywhere(problem: Problem) -> RoundCost:
    """A start-up pass: all M clients receive x_0 and return a large-batch gradient."""
    return _together(problem.M, problem.large_batch, 2)


def no_start_up(problem: Problem) -> RoundCost:  # noqa: ARG001 (the signature of every cost)
    """A method that starts from x_0 alone."""
    return NOTHING


def _fedamd(problem: Problem, anchors: float, stages: tuple[Stage, ...]) -> RoundCost:
    """`anchors` is the mean share of anchors among the A clients."""
    anchor, miner = _anchor(problem), _miner(problem)
    return RoundCost(
        problem.A * (anchors * anchor.samples + (1 - anchors) * miner.samples),
        problem.A * (anchors * anchor.vectors + (1 - anchors) * miner.vectors),
        stages,
    )


def _anchor(problem: Problem) -> Work:
    """Receives x, returns v."""
    return Work(problem.large_batch, 2)


def _miner(problem: Problem) -> Work:
    """Receives x and the bullseye g, returns Δ."""
    return Work(2 * problem.K * problem.b_small, 3)


CostFunction = Callable[[Problem], RoundCost]
