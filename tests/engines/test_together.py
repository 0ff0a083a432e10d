"""Roles with different numbers of steps side by side: each as if alone, in few calls of few sizes."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fedamd
from fedamd.algorithms import FedNova
from fedamd.algorithms.base import Role
from fedamd.data import Dataset
from fedamd.data.partition import Dirichlet
from fedamd.engines import stacking
from fedamd.engines.captured import MOST_GRAPHS, CapturedOracle, few_sizes
from fedamd.engines.loop import LoopEngine
from fedamd.engines.together import LOOPS, MOST_ROLES, Loops, SideBySide, within
from fedamd.engines.vector import WIDTHS, VectorEngine
from fedamd.models import Logistic
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run

CLIENTS, COHORT = 100, 10


class Counting(AutogradOracle):
    """Keeps the shape of every batch that it was asked for a gradient on."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.shapes: list[tuple[int, ...]] = []

    def gradient(self, x, batch):
        self.shapes.append(tuple(batch.samples.shape))
        return super().gradient(x, batch)


@pytest.fixture
def counting(labelled) -> Counting:
    return Counting(Logistic(3, 0.1).double(), labelled)


def batches(rows: int, count: int, width: int = 2) -> list[Batch]:
    random = torch.Generator().manual_seed(10 * rows + count)
    weights = torch.full((rows, width), 1 / width, dtype=torch.float64)
    return [Batch(torch.randint(19, (rows, width), generator=random), weights) for _ in range(count)]


def points(rows: int) -> Tensor:
    return torch.randn(rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(rows))


def descent(x: Tensor, own: list[Batch], eta: float = 0.1) -> Callable:
    return lambda oracle: oracle.descend(x, torch.full((len(x), 1), eta, dtype=x.dtype), own)


def recursion(x: Tensor, own: list[Batch]) -> Callable:
    """A miner's steps, with a forward pass at first."""

    def play(oracle):
        g, y, previous = torch.ones_like(x), x, x - 0.1
        losses = [oracle.loss(x, own[0])]
        for batch in own:
            g, loss = oracle.corrected(g, y, previous, batch)
            losses.append(loss)
            previous, y = y, y - 0.1 * g
        return y, losses

    return play


def assert_close(one: tuple[Tensor, list[Tensor]], other: tuple[Tensor, list[Tensor]]) -> None:
    torch.testing.assert_close(one[0], other[0])
    assert len(one[1]) == len(other[1])
    for loss, its_twin in zip(one[1], other[1], strict=True):
        torch.testing.assert_close(loss, its_twin)


def test_descents_of_different_lengths_share_every_step(counting):
    """Of 1, 5 and 3 steps, by 2, 1 and 3 clients: all 6, then the 4 with more than one step, then the longest."""
    plays = [descent(points(rows), batches(rows, steps)) for rows, steps in ((2, 1), (1, 5), (3, 3))]
    captured = CapturedOracle(counting)
    expected = [play(CapturedOracle(counting)) for play in plays]
    counting.shapes.clear()
    for got, alone in zip(SideBySide(captured).play(plays), expected, strict=True):
        assert_close(got, alone)
    assert counting.shapes == [(6, 2), (4, 2), (4, 2), (1, 2), (1, 2)]
    assert captured.captures == 3


def test_who_is_done_stays_exactly_where_it_is(counting):
    """To the bit, beside others that go on: five of six rows are computed where three are at work."""
    captured = CapturedOracle(counting)
    x = points(3)
    short = [descent(x[:2], batches(2, 1)), descent(x[:1], batches(1, 2)), descent(x, batches(3, 3))]
    ends = SideBySide(captured).play([*short, descent(x[:2], batches(2, 4))])
    longer = SideBySide(captured).play([*short, descent(x[:2], batches(2, 9))])
    for (end, losses), (its_twin, its_losses) in zip(ends[:3], longer[:3], strict=True):
        assert torch.equal(end, its_twin)
        assert all(torch.equal(*pair) for pair in zip(losses, its_losses, strict=True))


def test_any_function_can_take_part(counting):
    """Recursive steps, a descent on two widths and plain gradients, each at its own pace."""
    mixed = batches(2, 2) + batches(2, 3, width=1)
    plays = [
        recursion(points(2), batches(2, 4)),
        descent(points(2), mixed),
        recursion(points(1), batches(1, 2)),
        lambda oracle: (oracle.gradient(points(3), batches(3, 1)[0])[0], []),
        lambda _: (torch.zeros(1), []),  # one that asks nothing
    ]
    expected = [play(CapturedOracle(counting)) for play in plays]
    for got, alone in zip(SideBySide(CapturedOracle(counting)).play(plays), expected, strict=True):
        assert_close(got, alone)


def test_an_error_of_one_ends_all(counting):
    """It is raised as it is; no other function can take it for its own, and all can be played again."""
    side_by_side, handled, ended = SideBySide(CapturedOracle(counting)), [], []

    def patient(oracle):
        try:
            return recursion(points(1), batches(1, 3))(oracle)
        except Exception as error:
            handled.append(error)
        finally:
            ended.append(True)

    def fails(oracle):
        oracle.gradient(points(1), batches(1, 1)[0])
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        side_by_side.play([patient, fails, patient])
    assert (handled, ended) == ([], [True, True])
    assert len(side_by_side.play([patient, patient])) == 2


def test_an_error_of_the_oracle_ends_all(counting, monkeypatch):
    ended = []

    def full(*_):
        raise torch.OutOfMemoryError("full")

    def patient(oracle):
        try:
            oracle.gradient(points(1), batches(1, 1)[0])
        finally:
            ended.append(True)

    monkeypatch.setattr(counting, "gradient", full)
    with pytest.raises(torch.OutOfMemoryError):
        SideBySide(CapturedOracle(counting)).play([patient, patient])
    assert ended == [True, True]


def test_parts_weigh_no_more_than_allowed():
    assert within("abcdef", [3, 2, 5, 9, 1, 4], 5) == [["a", "b"], ["c"], ["d"], ["e", "f"]]
    assert within("", [], 5) == []
    assert [len(part) for part in within(range(600), [0] * 600, 5)] == [MOST_ROLES, MOST_ROLES, 600 - 2 * MOST_ROLES]


def test_loops_are_counted_by_code():
    """Functions that are made for every number of steps are one: what they hold is not kept."""

    def made(steps: int) -> Role:
        return Role(f"{steps}-step worker", lambda *_: steps)

    loops = Loops()
    for steps in range(1, LOOPS + 1):
        loops.add(made(steps), (4,) * steps)
        loops.add(made(steps), (4,) * steps)
    assert not loops.many(made(1))
    loops.add(made(9), (4,) * 9)
    assert loops.many(made(1))
    assert not loops.many(Role("other", lambda *_: None))


def test_few_sizes_hold_any_number_of_rows():
    """At most a half more, in the mean an eighth; a whole stack as it always is."""
    assert [few_sizes(rows, 10) for rows in range(1, 11)] == [1, 2, 3, 4, 6, 6, 8, 8, 10, 10]
    assert [few_sizes(rows, 1000) for rows in (1, 33, 49, 65, 700)] == [32, 48, 64, 96, 768]
    for most in range(1, 700):
        sizes = [few_sizes(rows, most) for rows in range(1, most + 1)]
        assert len(set(sizes)) <= MOST_GRAPHS
        assert all(rows <= size <= max(1.5 * rows, most / 16) for rows, size in enumerate(sizes, start=1))


def unequal(alpha: float) -> Dataset:
    """5,000 points of ten classes: as many steps of four as CIFAR-10 has of forty."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(5000) % 10
    inputs = torch.randn(5000, 5, generator=random, dtype=torch.float64)
    data = Dataset("unequal", inputs, labels, inputs[:10], labels[:10], classes=10)
    return Dataset(**(vars(data) | {"clients": Dirichlet(alpha)(data, CLIENTS, 0)}))


def nova(data: Dataset, rounds: int, seed: int = 0, batch: int = 4, model: nn.Module | None = None, **changes) -> Run:
    settings = {"clients": CLIENTS, "cohort": COHORT, "rounds": rounds, "seed": seed, "dtype": "float64"}
    torch.manual_seed(0)
    network, method = model or nn.Linear(5, 10).double(), FedNova(eta_l=0.05, small_batch=batch)
    return Run(build_experiment(load_config(settings | changes), dataset=data, model=network, algorithm=method))


def models(engine, *runs: Run) -> list[Tensor]:
    drive(runs, engine, lambda *_: None)
    return [run.state.x.cpu() for run in runs]


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("runs", [1, 5])
def test_fednova_needs_few_graphs_and_little_padding(alpha, runs):
    """What a GPU would capture: nothing twice, and no more than a quarter of the samples would be in vain."""
    data = unequal(alpha)
    lockstep = [nova(data, 6, seed) for seed in range(runs)]
    looped = nova(data, 6, seed=runs - 1)
    oracle = Counting(looped.experiment.model, data)
    engine = VectorEngine(oracle, samples_at_once=1 << 18, piece=64)
    *_, got = models(engine, *lockstep)
    (expected,) = models(LoopEngine(AutogradOracle(looped.experiment.model, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert lockstep[-1].ledger == looped.ledger
    assert engine._captured.captures == len(engine._captured) <= MOST_GRAPHS
    real = sum(run.ledger.gradient_samples for run in lockstep)
    assert real <= sum(map(math.prod, oracle.shapes)) <= 1.25 * real


def test_runs_in_lockstep_with_batches_of_three_widths_keep_their_graphs():
    data = unequal(0.1)
    runs, twins = ([nova(data, 4, seed, batch=batch) for seed, batch in enumerate((3, 4, 5))] for _ in range(2))
    engine = VectorEngine(AutogradOracle(runs[0].experiment.model, data), samples_at_once=1 << 18, piece=64)
    models(engine, *runs)
    models(LoopEngine(AutogradOracle(runs[0].experiment.model, data)), *twins)
    for run, twin in zip(runs, twins, strict=True):
        torch.testing.assert_close(run.state.x, twin.state.x, rtol=0, atol=1e-10)
    assert MOST_GRAPHS < engine._captured.captures == len(engine._captured) <= WIDTHS * MOST_GRAPHS


def test_wide_batches_are_taken_in_pieces_side_by_side(monkeypatch):
    """Batches of ten in pieces of four: what one call works on is bounded over all roles."""
    monkeypatch.setattr(stacking, "WIDEST", 4)
    data = unequal(0.3)
    run, looped = (nova(data, 3, batch=10) for _ in range(2))
    oracle = Counting(run.experiment.model, data)
    (got,) = models(VectorEngine(oracle, samples_at_once=60, piece=4), run)
    (expected,) = models(LoopEngine(AutogradOracle(looped.experiment.model, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert run.ledger == looped.ledger
    assert 24 < max(map(math.prod, oracle.shapes)) <= 60 * 1.25  # more than one client's; rows are rounded up


def test_samples_keep_their_masks_of_dropout():
    data = unequal(0.3)
    network = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.4), nn.Linear(6, 10)).double()
    run, looped = (nova(data, 2, cohort=6, model=network) for _ in range(2))
    (got,) = models(VectorEngine(AutogradOracle(network, data), samples_at_once=1 << 18, piece=64), run)
    (expected,) = models(LoopEngine(AutogradOracle(network, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("clients", [2, 3])
def test_few_clients_a_round_see_many_numbers_of_steps_in_time(clients):
    """Never more than three kinds of loop in one round; yet no loop is recorded for each of them."""
    data = unequal(0.1)
    run, looped = (nova(data, 12, cohort=clients) for _ in range(2))
    engine = VectorEngine(AutogradOracle(run.experiment.model, data), samples_at_once=1 << 18, piece=64)
    (got,) = models(engine, run)
    (expected,) = models(LoopEngine(AutogradOracle(looped.experiment.model, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert 1 <= len(engine._captured) <= clients


def test_roles_take_turns_where_the_device_has_no_room_for_all():
    """A device that holds six clients' steps: the same run as ever."""
    data = unequal(0.3)
    run, looped = nova(data, 3), nova(data, 3)
    refused = []

    class Tight(AutogradOracle):
        def gradient(self, x, batch):
            if len(x) > 6:
                refused.append(len(x))
                raise torch.OutOfMemoryError("full")
            return super().gradient(x, batch)

    (got,) = models(VectorEngine(Tight(run.experiment.model, data), samples_at_once=1 << 18, piece=64), run)
    (expected,) = models(LoopEngine(AutogradOracle(looped.experiment.model, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert run.ledger == looped.ledger
    assert refused == [10]  # once: fewer are taken together from then on


def test_an_error_in_one_role_is_told_with_its_client():
    """Played side by side; the clients are then tried one by one, as they are anywhere."""
    data = unequal(0.3)
    run = nova(data, 1)

    class Picky(AutogradOracle):
        def gradient(self, x, batch):
            if (batch.samples % 50 == 17).any():
                raise ValueError("not such a sample")
            return super().gradient(x, batch)

    with pytest.raises(fedamd.FedamdError, match=r"client \d+ as \d+-step worker.*not such a sample"):
        models(VectorEngine(Picky(run.experiment.model, data), samples_at_once=1 << 18, piece=64), run)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_fednova_on_a_gpu_captures_little_and_nothing_twice(alpha):
    data = unequal(alpha)
    run, looped = nova(data, 40, device="cuda"), nova(data, 40)
    engine = VectorEngine(AutogradOracle(run.experiment.model, run.experiment.dataset), samples_at_once=1 << 18)
    (got,) = models(engine, run)
    (expected,) = models(LoopEngine(AutogradOracle(looped.experiment.model, data)), looped)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)
    extras = run.records[-1].extras
    assert extras["captures"] == extras["graphs"] <= MOST_GRAPHS
