"""FedAMD: federated learning with anchor sampling.

Feijie Wu et al., "Anchor Sampling for Federated Learning with Partial Client Participation", ICML 2023, Algorithm 1.

The server keeps the model x_t and for every client m a caching gradient v^(m); their mean g_t is the global bullseye.
In round t each client of the cohort is, with probability p_t, an anchor, else a miner:

anchor   v^(i) ← ∇f_i(x_t; b samples)                                            cached by the server
miner    x_{−1} = x_0 = x_t, g_0 = g_t; for k = 0 … K−1, on a batch B_k of b' samples:
             g_{k+1} = g_k − ∇f_i(x_{k−1}; B_k) + ∇f_i(x_k; B_k)                  (Eq. 2)
             x_{k+1} = x_k − η_l·g_{k+1}
         Δ = x_t − x_K
server   x_{t+1} = x_t − η_s·mean of the miners' Δ; unchanged if there is no miner  (Eq. 3)

With client-held caches (the paper's massive-client setting) client i keeps v^(i) itself, sends the change
v_new − v_old, and the server keeps the sum alone: the same trajectory with memory that does not grow with M.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedamd.algorithms import checks, schedules
from fedamd.algorithms.base import (
    Batches,
    Dialogue,
    Exchange,
    Federation,
    Gradient,
    Replies,
    Reply,
    Size,
    State,
    Task,
    Turn,
    mean,
    role,
)
from fedamd.algorithms.by_theory import KnownProblem, TheoryValues
from fedamd.algorithms.parameters import param
from fedamd.algorithms.server import ServerStep
from fedamd.algorithms.space import LOCAL_RATE, SERVER_RATE, Choice, Space
from fedamd.errors import FedamdError
from fedamd.oracles.base import Batch
from fedamd.theory.probability import optimal_nonconvex, optimal_pl
from fedamd.theory.problem import Setting
from fedamd.theory.resolve import complete_rates
from fedamd.transfer import upload


@role("anchor", reports_loss=False)
def aim(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """A large-batch gradient at x_t. An anchor never receives the bullseye."""
    (large,) = batches
    return Reply(v=grad(task.x, large))


@role("anchor", reports_loss=False, memory=("v",))
def aim_and_keep(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """The same, for a client that keeps its own v and sends only how it changed."""
    (large,) = batches
    v = grad(task.x, large)
    return Reply(change=v - task.memory.v, fresh=task.fresh, memory={"v": v})


@role("miner", gradients=2)
def mine(task: Task, batches: Sequence[Batch], grad: Gradient) -> Reply:
    """Eq. 2: K recursive steps from the bullseye. At k = 0 both gradients are at x_t and cancel."""
    x = previous = task.x
    g = task.bullseye
    for batch in batches:
        g = grad.corrected(g, x, previous, batch)
        previous = x  # two steps: the one before is forgotten first, which in a stack of large models is much
        x = x - task.eta_l * g
    return Reply(delta=task.x - x)


@dataclass(frozen=True, kw_only=True)
class FedAMD(ServerStep):
    """FedAMD's hyper-parameters. Give one of `p`, `tau` and `pattern`; without any, p = "optimal"."""

    eta_l: float = param(0.03, "η_l, the miners' step")
    steps: int = param(10, "K, the miners' local steps")
    small_batch: Size = param(64, "b', the miners' batch")
    large_batch: Size = param("full", "b, the anchors' batch")
    p: float | Literal["optimal"] | Callable[[int], float] | None = param(None, "constant p, or a function t → p_t")
    tau: int | None = param(None, "sequential: every τ-th round all are anchors, else all are miners")
    pattern: str | tuple[float, ...] | None = param(None, '{p_t} of one period, as in "0,0,1"')
    c: float = param(1.0, "c ≥ 1 of p* = p_optimal/c: less computation for a staler cache")
    mu: float | None = param(None, 'μ/L: with it, p = "optimal" is the optimum under the PL condition')
    cache: Literal["server", "client"] = param("server", "who keeps v^(m)")
    start_up: Literal["full", "zeros", "lazy"] = param(
        "full", "v_0: all clients' gradients; 0; the mean of those seen so far"
    )
    weights: Literal["uniform", "samples"] = param("uniform", "F as the mean over clients, or over samples")
    space: ClassVar[Space] = {"eta_l": LOCAL_RATE, "eta_s": SERVER_RATE, "p": Choice(("optimal", 0.3, 0.5, 0.7, 0.9))}
    has_theory_for: ClassVar[tuple[str, ...]] = ("eta_l", "eta_s")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(self, "eta_l")
        checks.whole(self, "steps")
        checks.batch_size(self, "small_batch", "large_batch")
        checks.one_of(self, "cache", "server", "client")
        checks.one_of(self, "start_up", "full", "zeros", "lazy")
        checks.one_of(self, "weights", "uniform", "samples")
        if not self.c >= 1:
            raise FedamdError(f"c must be at least 1, not {self.c}")
        if self.mu is not None:
            checks.positive(self, "mu")
        given = [name for name in ("p", "tau", "pattern") if getattr(self, name) is not None]
        if len(given) > 1:
            raise FedamdError(f"give one of p, tau and pattern, not {' and '.join(given)}")
        if "full" not in (self.small_batch, self.large_batch) and self.small_batch > self.large_batch:  # type: ignore[operator]
            raise FedamdError(
                f"small_batch (b' = {self.small_batch}) must not exceed large_batch (b = {self.large_batch})"
            )
        self.schedule(cohort=1)

    def schedule(self, cohort: int) -> schedules.Schedule:
        """t → p_t for a cohort of A clients."""
        if self.tau is not None:
            return schedules.sequential(self.tau)
        if self.pattern is not None:
            return schedules.pattern(self.pattern)
        if callable(self.p):
            return schedules.checked(self.p)
        if isinstance(self.p, float | int):
            return schedules.constant(self.p)
        if self.p not in (None, "optimal"):
            raise FedamdError(
                f'p must be a number between 0 and 1, "optimal" or a function of the round, not {self.p!r}'
            )
        best = optimal_nonconvex(cohort, self.c) if self.mu is None else optimal_pl(cohort, self.mu, self.c)
        return schedules.constant(best)

    def start(self, x: Tensor, federation: Federation) -> Dialogue:
        """x_0 and the first caching gradients."""
        cache = self._empty_cache(x, federation)
        if self.start_up == "full":
            anchors = federation.everyone
            replies = yield Exchange(self._aim(anchors, x))
            cache |= self._refreshed(cache, replies["anchor"], federation)
        return State(x=x, **cache)

    def round(self, state: State, turn: Turn) -> Dialogue:
        """Round t of Algorithm 1."""
        p = self.schedule(turn.federation.cohort)(turn.t)
        is_anchor = {i: turn.coin(p, i) for i in turn.cohort}
        anchors = [i for i in turn.cohort if is_anchor[i]]
        miners = [i for i in turn.cohort if not is_anchor[i]]
        replies = yield Exchange(
            self._aim(anchors, state.x),
            mine.to(
                miners, Batches(self.steps, self.small_batch), x=state.x, bullseye=state.bullseye, eta_l=self.eta_l
            ),
        )
        cache = self._refreshed(dict(state.items()), replies["anchor"], turn.federation)
        mined = replies["miner"]
        if not len(mined):  # ν = 0
            return state.next(**cache)
        weights = turn.federation.weights(mined.clients, self.weights, state.x)
        return state.next(**cache, **self.descend(state, mean(mined.delta, weights)))

    # --- the cache: server-held {v, seen} or client-held {total, weight}; the bullseye in both ---

    def _aim(self, anchors: Sequence[int], x: Tensor) -> Any:
        anchor = aim if self.cache == "server" else aim_and_keep
        return anchor.to(anchors, Batches(1, self.large_batch), x=x)

    def _empty_cache(self, x: Tensor, federation: Federation) -> dict[str, Tensor]:
        known = 1.0 if self.start_up == "zeros" else 0.0  # v = 0 is what is known, or nothing is known yet
        if self.cache == "server":
            everyone = federation.clients
            held = {"v": x.new_zeros(everyone, x.numel()), "seen": x.new_full((everyone, 1), known)}
        else:
            held = {"total": torch.zeros_like(x), "weight": x.new_full((1,), known * federation.clients)}
        return held | {"bullseye": torch.zeros_like(x)}

    def _refreshed(self, cache: dict[str, Tensor], anchors: Replies, federation: Federation) -> dict[str, Tensor]:
        """v_{t+1}: the anchors' entries replaced, everyone else's inherited; and the bullseye, its mean."""
        if not len(anchors):
            return {}
        if self.cache == "client":
            weights = federation.weights(anchors.clients, self.weights, anchors.change)
            total = cache["total"] + (weights * anchors.change).sum(0)
            known = 0.0 if self.start_up == "zeros" else (weights * anchors.fresh).sum(0)
            weight = cache["weight"] + known
            return {"total": total, "weight": weight, "bullseye": total / weight}
        v, seen = cache["v"], cache["seen"]
        rows = upload(anchors.clients, v.device)
        v.index_copy_(0, rows, anchors.v)  # in place: the cache is by far the largest thing a server holds
        seen.index_fill_(0, rows, 1.0)
        weights = seen if self.weights == "uniform" else seen * federation.weights(federation.everyone, self.weights, v)
        return {"v": v, "seen": seen, "bullseye": mean(v, weights)}

    # --- theory ---

    def by_theory(self, names: Sequence[str], problem: KnownProblem) -> TheoryValues:
        """η_l and η_s as the theorem for this schedule has them; where one is given, the other from their product."""
        if reason := self._without_theorem():
            raise FedamdError(f"learning rates by theory: {reason}; give numbers for eta_l and eta_s")
        given = {name: getattr(self, name) for name in self.has_theory_for if name not in names}
        completed = complete_rates("constant" if self.tau is None else "sequential", self._setting(problem), **given)
        return TheoryValues({name: getattr(completed.rates, name) for name in names}, completed.beyond)

    def worked_out(self, cohort: int) -> dict[str, float]:
        """p*, where p is left to be optimal."""
        optimal = self.p in (None, "optimal") and self.tau is None and self.pattern is None
        return {"p": self.schedule(cohort)(0)} if optimal else {}

    def _setting(self, problem: KnownProblem) -> Setting:
        smallest, (L, L_sigma, _) = min(problem.sizes), problem.smoothness
        return Setting(
            M=problem.clients,
            A=problem.cohort,
            K=self.steps,
            b_small=smallest if self.small_batch == "full" else min(self.small_batch, smallest),
            L=L,
            L_sigma=L_sigma,
            mu=None if self.mu is None else self.mu * L,
            p=float(self.p) if isinstance(self.p, float | int) else None,
            c=self.c,
            tau=self.tau or 2,
            version=problem.version,
        )

    def _without_theorem(self) -> str | None:
        """Why no theorem is about this, if none is: F is the mean over clients in them, and the server's step plain."""
        if self.pattern is not None or callable(self.p):
            return "the theorems know a constant p and a period tau, no other schedule"
        if self.server != "plain":
            return f'the theorems are about server = "plain", not "{self.server}"'
        if self.weights != "uniform":
            return 'the theorems are about weights = "uniform", where every client weighs the same'
        return None
