"""VR-MARINA and PP-MARINA: compressed differences of gradients, and now and then the gradients themselves.

Eduard Gorbunov et al., "MARINA: faster non-convex distributed learning with compression", ICML 2021: VR-MARINA in its
online form, and PP-MARINA.

The server keeps x_t, x_{t−1} and the estimate g_{t−1}.

full round   with probability p, and always until a g is known: g_t = mean of ∇f_i(x_t; b samples) over all M clients
else         q_i = Q(∇f_i(x_t; B) − ∇f_i(x_{t−1}; B)) on a batch B of b' samples, Q an unbiased compressor
             VR-MARINA: of all M clients;  PP-MARINA: of the cohort (without replacement, where the original draws with)
             g_t = g_{t−1} + mean of q_i
server       x_{t+1} = x_t − η_s·g_t, their γ

The original sends g_t and lets every client follow x by itself. Here the clients are sent x_t and x_{t−1} instead, so
that one that missed a round, or was not asked, can take part in the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

from fedamd.algorithms import checks
from fedamd.algorithms.base import Batches, Dialogue, Exchange, Gradient, Reply, Role, Size, State, Task, Turn
from fedamd.algorithms.compressors import Compressor, Identity, Quantiser, RandK
from fedamd.algorithms.local import survey
from fedamd.algorithms.parameters import param
from fedamd.algorithms.server import ServerStep
from fedamd.algorithms.space import Log, Space
from fedamd.oracles.base import Batch


@cache
def compress_with(compressor: Compressor) -> Role:
    """The role of a client that sends the compressed change of its gradient from x_{t−1} to x_t."""

    def compress(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
        (small,) = batches
        return Reply(change=compressor(grad.difference(task.x, task.previous, small), task.uniforms))

    return Role("compressor", compress, gradients=2)


@dataclass(frozen=True, kw_only=True)
class VRMarina(ServerStep):
    """VR-MARINA's hyper-parameters."""

    small_batch: Size = param(64, "b', the batch of a difference")
    large_batch: Size = param("full", "b, the batch of full rounds")
    p: float = param(0.1, "the probability of a full round; k/d balances the cost of rand-k")
    compressor: Literal["identity", "rand-k", "quantise"] = param("identity", "Q, the compressor")
    fraction: float = param(0.1, "k/d, the share of coordinates that rand-k keeps")
    levels: int = param(4, "s, the levels of the quantiser")
    space: ClassVar[Space] = {**ServerStep.space, "p": Log(0.03, 0.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.batch_size(self, "small_batch", "large_batch")
        checks.between(self, 0, 1, "p", "fraction")
        checks.positive(self, "fraction")
        checks.one_of(self, "compressor", "identity", "rand-k", "quantise")
        checks.whole(self, "levels")

    @property
    def q(self) -> Compressor:
        """Q."""
        choices: dict[str, Compressor] = {
            "identity": Identity(),
            "rand-k": RandK(self.fraction),
            "quantise": Quantiser(self.levels),
        }
        return choices[self.compressor]

    @property
    def compress(self) -> Role:
        """The role of the clients between full rounds."""
        return compress_with(self.q)

    def participants(self, turn: Turn) -> Sequence[int]:
        """Whose differences a round asks for."""
        return turn.federation.everyone

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Gradients of everyone or compressed differences, and a step along g_t."""
        known = dict(state.items())
        if "g" not in known or turn.coin(self.p):
            everyone = turn.federation.everyone
            replies = yield Exchange(survey.to(everyone, Batches(1, self.large_batch), x=state.x))
            if not len(surveyors := replies["surveyor"]):
                return state
            g = surveyors.gradient.mean(0)
        else:
            clients, batch = self.participants(turn), Batches(1, self.small_batch)
            replies = yield Exchange(self.compress.to(clients, batch, x=state.x, previous=state.previous))
            if not len(compressors := replies["compressor"]):
                return state
            g = state.g + compressors.change.mean(0)
        return state.next(previous=state.x, g=g, **self.descend(state, g))


@dataclass(frozen=True, kw_only=True)
class PPMarina(VRMarina):
    """PP-MARINA's hyper-parameters: VR-MARINA's. The original takes differences of full gradients (b' = "full")."""

    small_batch: Size = param("full", "b', the batch of a difference")

    def participants(self, turn: Turn) -> Sequence[int]:
        """Whose differences a round asks for."""
        return turn.cohort
