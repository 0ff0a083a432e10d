"""The stacked engine gives what the reference loop gives: every method, unequal clients, failures, runs in lockstep."""

import dataclasses
import logging

import pytest
import torch
from torch import nn

import fedamd
from fedamd.algorithms import ALGORITHMS, FedAMD, FedAvg
from fedamd.data import Dataset, Partition
from fedamd.data.augment import FlipCrop
from fedamd.engines import together, vector
from fedamd.engines.device_memory import NoRoom
from fedamd.engines.factory import make_engine
from fedamd.engines.loop import LoopEngine
from fedamd.engines.vector import VectorEngine
from fedamd.errors import FedamdError
from fedamd.models import Logistic
from fedamd.oracles import native
from fedamd.oracles.autograd import AutogradOracle
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
FAST = [
    *((model, "stacked", name) for model in ("mlp", "cnn") for name in ("fedavg", "fedamd", "fednova", "anchored")),
    # not FedAMD, for which float32 itself leads elsewhere than float64: gradients of a ResNet that nearly cancel
    *(("resnet18-gn", "graph", name) for name in ("fedavg", "fednova", "anchored")),
]
SMALL = {"eta_l": 0.05, "steps": 3, "small_batch": 3}
ROUNDS = 8


def small(name: str):
    """The method of this name with its defaults, but for small steps and batches."""
    method = ALGORITHMS[name]
    fields = {field.name for field in dataclasses.fields(method.make)}
    return method.make(**dict(method.presets) | {key: value for key, value in SMALL.items() if key in fields})


def network() -> nn.Module:
    """Normalised in groups, dropped in two places, and frozen in part."""
    torch.manual_seed(1)
    features = nn.Sequential(nn.Linear(3, 6), nn.GroupNorm(2, 6), nn.Tanh(), nn.Dropout(0.3))
    features[0].bias.requires_grad_(False)
    return nn.Sequential(features, nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 2)).double()


def begin(dataset, algorithm, seed=0, failure_rate=0.0, model=None, rounds=ROUNDS, device="cpu") -> Run:
    config = load_config(
        {
            "clients": 5,
            "cohort": 4,
            "rounds": rounds,
            "seed": seed,
            "failure_rate": failure_rate,
            "dtype": "float64",
            "device": device,
        }
    )
    net = Logistic(3, 0.1).double() if model is None else model
    return Run(build_experiment(config, dataset=dataset, model=net, algorithm=algorithm))


def finished(engine, *runs: Run) -> list[torch.Tensor]:
    """Every run's x_1 … x_T as rows."""
    points = {id(run): [] for run in runs}
    drive(runs, engine, lambda run, _: points[id(run)].append(run.state.x.to("cpu", copy=True)))
    return [torch.stack(points[id(run)]) for run in runs]


def oracle(run: Run) -> AutogradOracle:
    return AutogradOracle(run.experiment.model, run.experiment.dataset)


def assert_same(one: Run, other: Run, tolerance: float = 1e-10) -> None:
    """State, records but for the time and extras, and what the clients hold."""
    assert one.status == other.status
    assert one.ledger == other.ledger
    assert one.start_up == other.start_up
    assert dict(one.state.items()).keys() == dict(other.state.items()).keys()
    for name, value in one.state.items():
        torch.testing.assert_close(value.cpu(), getattr(other.state, name), rtol=0, atol=tolerance)
    for record, twin in zip(one.records, other.records, strict=True):
        plain, wanted = record.to_json(), twin.to_json()
        for key in plain.keys() - {"seconds", "extras"}:  # what an engine counts besides is its own affair
            assert plain[key] == pytest.approx(wanted[key], abs=tolerance), key
    held, twin_held = one.site.store.tensors(), other.site.store.tensors()
    order, twin_order = held.pop("clients").argsort(), twin_held.pop("clients").argsort()
    assert held.keys() == twin_held.keys()
    for name in held:
        torch.testing.assert_close(held[name].cpu()[order], twin_held[name][twin_order], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_runs_step_by_step_beside_others_as_in_the_loop(name, labelled, monkeypatch):
    """Three runs in lockstep of one, two and three steps: as on a GPU, where numbers of steps are many."""
    monkeypatch.setattr(together, "LOOPS", 0)

    def runs() -> list[Run]:
        method = small(name)
        fields = {field.name for field in dataclasses.fields(method)}
        lengths = [{"steps": steps} if "steps" in fields else {} for steps in (1, 2, 3)]
        return [
            begin(labelled, dataclasses.replace(method, **length), seed, failure_rate=0.2, rounds=2)
            for seed, length in enumerate(lengths)
        ]

    looped, side_by_side = runs(), runs()
    finished(LoopEngine(oracle(looped[0])), *looped)
    finished(VectorEngine(oracle(side_by_side[0]), samples_at_once=40, piece=2), *side_by_side)
    for run, twin in zip(side_by_side, looped, strict=True):
        assert_same(run, twin)


@pytest.mark.parametrize("failure_rate", [0.0, 0.3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_runs_as_in_the_loop(name, failure_rate, labelled):
    """`samples_at_once` = 6 is two clients of three samples a chunk, and one of seven by itself."""
    looped = begin(labelled, small(name), seed=2, failure_rate=failure_rate)
    stacked = begin(labelled, small(name), seed=2, failure_rate=failure_rate)
    (expected,) = finished(LoopEngine(oracle(looped)), looped)
    (got,) = finished(VectorEngine(oracle(stacked), samples_at_once=6), stacked)
    assert not torch.equal(expected[0], expected[-1])  # it moved
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert_same(stacked, looped)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_runs_a_network_with_dropout_as_in_the_loop(name, labelled):
    """In micro-batches too: a sample keeps its masks in whatever part of its batch it is."""
    looped = begin(labelled, small(name), seed=3, model=network(), rounds=3)
    stacked = begin(labelled, small(name), seed=3, model=network(), rounds=3)
    (expected,) = finished(LoopEngine(oracle(looped)), looped)
    (got,) = finished(VectorEngine(oracle(stacked), samples_at_once=6, micro_batch=2), stacked)
    assert expected.shape[1] == 18 + 12 + 28 + 10
    assert not torch.equal(expected[0], expected[-1])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert_same(stacked, looped)


@on_a_gpu
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_runs_on_a_gpu_as_in_the_loop(name, labelled):
    """A network with dropout, unequal clients, failures: whole loops as CUDA graphs, and gradients alone."""
    looped = begin(labelled, small(name), seed=3, failure_rate=0.3, model=network(), rounds=3)
    recorded = begin(labelled, small(name), seed=3, failure_rate=0.3, model=network(), rounds=3, device="cuda")
    (expected,) = finished(LoopEngine(oracle(looped)), looped)
    (got,) = finished(VectorEngine(oracle(recorded), samples_at_once=64), recorded)
    assert not torch.equal(expected[0], expected[-1])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)
    assert_same(recorded, looped, 1e-9)


@on_a_gpu
@pytest.mark.parametrize(("model", "fast", "method"), FAST)
def test_fast_oracles_of_a_gpu_lead_where_the_loop_leads(model, fast, method, caplog):
    """Digits of unequal clients, float32: two rounds from a common start, in parts of the way that was gone."""
    config = {
        "clients": 12,
        "cohort": 4,
        "rounds": 2,
        "partition": {"name": "dirichlet", "alpha": 0.3, "min_size": 2},
        "model": {"name": model},
        "algorithm": {"name": method, "small_batch": 8, "eta_l": 0.001},
    }
    start = build_experiment(load_config(config)).x0
    reference = fedamd.run(config, engine="loop", oracle="autograd")
    with caplog.at_level(logging.WARNING, logger="fedamd"):
        result = fedamd.run(config, device="cuda", engine="vector", oracle=fast)
    assert not caplog.text  # as of an oracle that would not do
    assert (result.x.cpu() - reference.x).norm() < 0.01 * (reference.x - start).norm()


@pytest.mark.parametrize("name", ["fedavg", "fedamd", "scaffold"])
def test_augmented_images_are_the_same_as_in_the_loop(name):
    """Twelve images of 2 × 4 × 4 pixels, of unequal clients; without augmentation another model comes out."""
    images = torch.randn(12, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    owned = Partition.of([[0, 1, 2], [3, 4], [5], [6, 7, 8, 9], [10, 11]])
    plain = Dataset("pictures", images, torch.arange(12) % 2, images, torch.arange(12) % 2, 2, clients=owned)
    augmented = dataclasses.replace(plain, augment=FlipCrop((0.0, 0.0), padding=1))

    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(32, 4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 2)).double()

    looped, stacked, without = (
        begin(data, small(name), seed=3, model=model(), rounds=3) for data in (augmented, augmented, plain)
    )
    (expected,) = finished(LoopEngine(oracle(looped)), looped)
    (got,) = finished(VectorEngine(oracle(stacked), samples_at_once=6, micro_batch=2), stacked)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert not torch.allclose(finished(LoopEngine(oracle(without)), without)[0][-1], expected[-1])


@pytest.mark.parametrize("cache", ["server", "client"])
@pytest.mark.parametrize("engine", [LoopEngine, lambda oracle: VectorEngine(oracle, samples_at_once=20)])
def test_runs_in_lockstep_are_the_runs_alone(engine, cache, labelled):
    """Three runs with seeds and learning rates of their own, one of them with failures."""

    def runs() -> list[Run]:
        return [
            begin(
                labelled,
                FedAMD(eta_l=eta_l, steps=3, small_batch=2, p=0.5, cache=cache),
                seed=seed,
                failure_rate=failure_rate,
            )
            for seed, eta_l, failure_rate in ((1, 0.05, 0.0), (2, 0.1, 0.4), (3, 0.2, 0.0))
        ]

    together, alone = runs(), runs()
    points = finished(engine(oracle(together[0])), *together)
    for run, twin, path in zip(together, alone, points, strict=True):
        (own,) = finished(engine(oracle(twin)), twin)
        torch.testing.assert_close(path, own, rtol=0, atol=1e-12)
        assert_same(run, twin, 1e-12)
    assert not torch.equal(points[0], points[1])


def test_runs_take_turns_where_the_device_has_no_room_for_all(labelled, monkeypatch):
    """Three runs of up to five clients each, on a device that holds five: the runs are those it had room for."""
    play, held = VectorEngine._play, []

    def tight(self, roles, stacks):
        held.append(sum(map(len, stacks)))
        if held[-1] > 5:
            raise NoRoom("full")
        return play(self, roles, stacks)

    def runs() -> list[Run]:
        return [begin(labelled, FedAMD(**SMALL, p=0.5, cache="client"), seed=seed) for seed in range(3)]

    roomy, crowded = runs(), runs()
    expected = finished(VectorEngine(oracle(roomy[0]), samples_at_once=20), *roomy)
    monkeypatch.setattr(VectorEngine, "_play", tight)
    got = finished(VectorEngine(oracle(crowded[0]), samples_at_once=20), *crowded)
    assert held[:5] == [15, 5, 10, 5, 5]  # the start-up: all, the first, the other two, each of them
    for path, other in zip(got, expected, strict=True):
        torch.testing.assert_close(path, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("full", [torch.OutOfMemoryError("full"), RuntimeError("can't allocate memory: 9 bytes")])
def test_clients_are_taken_in_halves_where_the_device_has_no_room_for_all(full, labelled):
    """Three samples a batch, four clients, room for six samples: two clients at once, found out once."""
    asked = []

    class Tight(AutogradOracle):
        def gradient(self, x, batch):
            asked.append(batch.samples.numel())
            if asked[-1] > 6:
                raise full
            return super().gradient(x, batch)

    method = FedAvg(**SMALL)
    tight, roomy = begin(labelled, method), begin(labelled, method)
    (got,) = finished(VectorEngine(Tight(tight.experiment.model, labelled), samples_at_once=64), tight)
    (expected,) = finished(LoopEngine(oracle(roomy)), roomy)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert sum(count > 6 for count in asked) == 1
    with pytest.raises(
        NoRoom, match="no memory for one client of a model with 3 parameters on 7 samples at once; set micro"
    ):
        finished(VectorEngine(Tight(tight.experiment.model, labelled), 64), begin(labelled, FedAvg(small_batch="full")))


def test_one_run_that_has_no_room_says_so(labelled, monkeypatch):
    def full(*_):
        raise NoRoom("the device has no memory")

    monkeypatch.setattr(VectorEngine, "_play", full)
    run = begin(labelled, FedAMD(**SMALL))
    with pytest.raises(FedamdError, match="no memory"):
        finished(VectorEngine(oracle(run), samples_at_once=20), run)


def test_micro_batches_bound_what_one_call_sees(labelled):
    """No gradient call of a stack works on more samples than allowed, and the result is that of whole batches."""
    widest = []

    class Measured(AutogradOracle):
        def gradient(self, x, batch):
            widest.append(batch.samples.shape)
            return super().gradient(x, batch)

    method = FedAMD(eta_l=0.1, steps=2, small_batch=4, p=0.5)
    parts, whole = begin(labelled, method), begin(labelled, method)
    measured = Measured(parts.experiment.model, labelled)
    (got,) = finished(VectorEngine(measured, samples_at_once=4, micro_batch=2), parts)
    (expected,) = finished(LoopEngine(oracle(whole)), whole)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert max(shape[-1] for shape in widest) == 2
    assert max(shape.numel() for shape in widest) == 4


def test_a_bad_row_is_dropped_without_its_neighbours(labelled):
    """A NaN among the samples of client 2: its row alone is rejected, as in the loop."""
    inputs = labelled.inputs.clone()
    inputs[labelled.clients.samples(2)[0]] = float("nan")
    spoilt = dataclasses.replace(labelled, inputs=inputs)
    method = FedAMD(eta_l=0.1, steps=2, small_batch="full", tau=2, cache="client")
    looped, stacked = begin(spoilt, method), begin(spoilt, method)
    finished(LoopEngine(oracle(looped)), looped)
    finished(VectorEngine(oracle(stacked), samples_at_once=100), stacked)
    assert stacked.records[0].rejected == 1
    assert stacked.site.store.fresh(range(5)) == [False, False, True, False, False]
    assert_same(stacked, looped)


@pytest.mark.parametrize("fast", ["native", "stacked"])
def test_a_float32_round_of_a_network(fast):
    """Three local steps of an MLP on the digits: sums in another order, so equal to 1e-5 and not to the bit."""
    if fast == "native" and (reason := native.available()):
        pytest.skip(reason)
    config = {
        "clients": 12,
        "cohort": 6,
        "rounds": 2,
        "model": {"name": "mlp", "hidden": 16},
        "algorithm": {"pattern": "0.5", "steps": 3, "small_batch": 8},
    }
    reference = fedamd.run(config, engine="loop", oracle="autograd")
    result = fedamd.run(config, engine="vector", oracle=fast)
    assert {"anchor", "miner"} <= {role for role, count in result.metrics[-1].roles.items() if count}
    assert (result.x - reference.x).abs().max() < 1e-5
    assert result.metrics[-1].loss == pytest.approx(reference.metrics[-1].loss, abs=1e-5)
    assert result.summary["gradient_samples"] == reference.summary["gradient_samples"]


class Peeking(nn.Module):
    """Looks at the values of its own outputs, which no vectorised call can do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, inputs):
        outputs = self.linear(inputs)
        return outputs if outputs.sum().item() < 1e9 else -outputs


def test_a_model_that_cannot_be_vectorised_falls_back_to_the_loop(labelled, caplog):
    with caplog.at_level(logging.WARNING, logger="fedamd"):
        engine = make_engine("vector", "autograd", Peeking().double(), labelled)
    assert isinstance(engine, LoopEngine)
    assert "cannot be vectorised" in caplog.text
    assert "loop engine" in caplog.text
    result = fedamd.run(
        clients=5, cohort=3, rounds=2, engine="vector", dtype="float64", dataset=labelled, model=Peeking()
    )
    assert result.summary["status"] == "finished"


@pytest.mark.parametrize("large", [1, 1 << 20])
def test_a_method_in_pieces_is_the_method(labelled, large, monkeypatch):
    """Full batches of 1 to 7 samples in pieces of two; of a large model as many at once as there are clients."""
    monkeypatch.setattr(vector, "LARGE", large)
    for method in (
        FedAMD(eta_l=0.1, steps=3, small_batch="full", tau=2),
        FedAMD(eta_l=0.1, steps=2, small_batch=3, p=0.5, cache="client"),
    ):
        looped, cut = begin(labelled, method), begin(labelled, method)
        (expected,) = finished(LoopEngine(oracle(looped)), looped)
        (got,) = finished(VectorEngine(oracle(cut), samples_at_once=8, piece=2), cut)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
        assert_same(cut, looped)
