"""The paper's Table 2 as a test of the ledger: from its numbers of rounds to its gradient and communication figures.

The exchanges are the algorithms' own and the ledger is the real one. What the clients compute does not matter to
either, so the vectors here are PyTorch's "meta" tensors: they have LeNet-5's 44,426 parameters in shape and type,
and no content. A client function runs once, and its reply stands for those of all clients in the role.

The table's units are 10⁵ samples and 32 Mbit, that is 10⁶ numbers of 32 bits. M = 100, n = 600, K = 10, b' = 64, b = n.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from torch import Tensor

from fedamd.algorithms import BVRLSGD, FedAMD, FedAvg, FedPAGE, Scaffold
from fedamd.algorithms.base import (
    Algorithm,
    Answers,
    Dialogue,
    Exchange,
    Federation,
    Gradient,
    Replies,
    Reply,
    Role,
    State,
    Task,
    Turn,
    Values,
)
from fedamd.runs.ledger import Ledger

X = torch.empty(44_426, device="meta")
SIZES = (600,) * 100
LOCAL = {"steps": 10, "small_batch": 64}


class NoGradient(Gradient):
    """A gradient's shape."""

    def __call__(self, x: Tensor, batch: object) -> Tensor:  # noqa: ARG002
        return torch.empty_like(x)

    def difference(self, x: Tensor, previous: Tensor, batch: object) -> Tensor:  # noqa: ARG002
        return torch.empty_like(x)


@cache
def reply_to(role: Role, batches: int, payload: frozenset[str]) -> Reply:
    """What a client sends back, in shape: the same for every order of the role with these batches and this payload."""
    vectors = dict.fromkeys(payload | set(role.memory), X)
    task = Task(**vectors, memory=Values(**vectors), fresh=X[:1], uniforms=lambda count: X[:count])
    return role.run(task, [None] * batches, NoGradient())


def answer(exchange: Exchange) -> Answers:
    """Replies of the right shapes from everyone."""
    answers = {}
    for order in exchange.orders:
        reply = reply_to(order.role, sum(batches.count for batches in order.batches), frozenset(order.payload))
        stacks = {name: value.expand(len(order.clients), -1) for name, value in reply.values.items()}
        answers[order.role.name] = Replies(order.clients, stacks, bits=reply.bits)
    return answers


def converse(dialogue: Dialogue, ledger: Ledger) -> State:
    """Answer a dialogue's exchanges until it returns its state, counting each."""
    answers = None
    while True:
        try:
            exchange = next(dialogue) if answers is None else dialogue.send(answers)
        except StopIteration as end:
            return end.value
        answers = answer(exchange)
        ledger.add(exchange, answers, SIZES)


@dataclass(frozen=True)
class EvenTurn(Turn):
    """Round coins that fall exactly p of the time, so that a run of them costs what is expected of it."""

    def coin(self, p: float, client: int = -1) -> bool:
        return super().coin(p, client) if client >= 0 else int((self.t + 1) * p) > int(self.t * p)


def costs(algorithm: Algorithm, cohort: int, rounds: int) -> tuple[float, float]:
    """Gradients and communication of so many rounds in the table's units, the start-up pass left out."""
    federation = Federation(100, cohort, SIZES)
    state = converse(algorithm.start(X, federation), Ledger())
    ledger = Ledger()
    for t in range(rounds):
        state = converse(algorithm.round(state, EvenTurn(t, 0, federation)), ledger)
    return ledger.gradient_samples / 1e5, (ledger.bits_up + ledger.bits_down) / 32 / 1e6


BVR, AVG, PAGE = BVRLSGD(**LOCAL), FedAvg(**LOCAL), FedPAGE(**LOCAL)
SCAFFOLD = Scaffold(**LOCAL)
CONSTANT, SEQUENTIAL = FedAMD(**LOCAL, p="optimal"), FedAMD(**LOCAL, tau=2)

TABLE_2 = [  # method, A, rounds to 75 %, gradients, communication
    (BVR, 20, 310, 101.9, 853.9),
    (BVR, 40, 275, 177.4, 1492.3),
    (BVR, 100, 291, 463.8, 3908.7),
    (AVG, 20, 318, 40.8, 566.9),
    (AVG, 40, 305, 78.3, 1087.5),
    (AVG, 100, 291, 186.9, 2594.5),
    (PAGE, 20, 271, 148.6, 1670.4),
    (PAGE, 40, 203, 164.3, 1622.4),
    (PAGE, 100, 339, 525.5, 4540.3),
    (SCAFFOLD, 20, 370, 47.5, 1318.6),
    (SCAFFOLD, 40, 356, 91.4, 2537.8),
    (SCAFFOLD, 100, 391, 250.9, 6966.0),
    (CONSTANT, 20, 259, 35.5, 489.8),
    (CONSTANT, 40, 209, 55.0, 776.3),
    (replace(CONSTANT, p=0.9), 100, 229, 153.9, 2147.8),  # not the p* = 0.961 that the text says: see below
    (SEQUENTIAL, 20, 213, 40.2, 475.3),
    (replace(SEQUENTIAL, tau=3), 40, 190, 80.4, 904.5),  # {0, 0, 1}, not the {0, 1} of the others: see below
    (SEQUENTIAL, 100, 269, 253.8, 2998.8),
]


@pytest.mark.parametrize(
    ("algorithm", "cohort", "rounds", "gradients", "communication"),
    TABLE_2,
    ids=lambda value: type(value).__name__ if isinstance(value, Algorithm) else str(value),
)
def test_both_cells_within_two_percent(algorithm, cohort, rounds, gradients, communication):
    """FedPAGE's figures depend on how many rounds happened to be full; they are compared with what is expected of p
    = 0.5 (and round 0 full). FedAMD's anchors are the thousands of coins of seed 0."""
    counted = costs(algorithm, cohort, rounds)
    assert counted[0] == pytest.approx(gradients, rel=0.02)
    assert counted[1] == pytest.approx(communication, rel=0.02)


@pytest.mark.parametrize(
    ("algorithm", "cohort", "rounds", "gradients", "communication"),
    [(CONSTANT, 100, 229, 153.9, 2147.8), (SEQUENTIAL, 40, 190, 80.4, 904.5)],
)
def test_two_entries_were_not_run_as_the_text_says(algorithm, cohort, rounds, gradients, communication):
    """With p* = 0.961 for A = 100, and with τ = 2 for A = 40, the paper's own figures cannot come out: both cells
    are more than 3 % too small. With p = 0.9 and τ = 3, above, both fit."""
    counted = costs(algorithm, cohort, rounds)
    assert counted[0] < 0.97 * gradients
    assert counted[1] < 0.97 * communication


@pytest.mark.parametrize(
    ("algorithm", "samples", "vectors"),
    [
        (AVG, lambda a: a * 640, lambda a: 2 * a),
        (SCAFFOLD, lambda a: a * 640, lambda a: 4 * a),
        (BVR, lambda a: a * 1280 + 1280 + a * 300, lambda a: 3 * a + 2),
        (PAGE, lambda a: (100 * 600 + a * (1200 + 1280)) / 2, lambda a: (200 + 4 * a) / 2),
        (SEQUENTIAL, lambda a: a * (600 + 1280) / 2, lambda a: 5 * a / 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Algorithm) else "",
)
def test_costs_per_round_are_the_formulas_of_the_paper(
    algorithm: Algorithm, samples: Callable[[int], float], vectors: Callable[[int], float]
):
    """Exactly, over 20 rounds: 10 periods of two for BVR-L-SGD, FedPAGE's even coins and FedAMD's {0, 1}."""
    if algorithm is PAGE:  # round 0 is full: EvenTurn's coins then fall full in every odd round; leave round 0 out
        first, all_21 = costs(algorithm, 20, 1), costs(algorithm, 20, 21)
        counted = (all_21[0] - first[0], all_21[1] - first[1])
    else:
        counted = costs(algorithm, 20, 20)
    assert counted[0] == pytest.approx(20 * samples(20) / 1e5, rel=1e-12)
    assert counted[1] == pytest.approx(20 * vectors(20) * 44_426 / 1e6, rel=1e-12)
