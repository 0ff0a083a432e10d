"""Runs that do not fit into memory are refused before they start, with the size; the others are left alone."""

import pytest
import torch

import fedamd
from fedamd.algorithms import ALGORITHMS, FedAMD, FedAvg
from fedamd.algorithms.base import Algorithm, Batches, Exchange, Reply, role
from fedamd.data import memory
from fedamd.engines.loop import LoopEngine
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle
from fedamd.runs import room
from fedamd.runs.config import load_config
from fedamd.runs.experiment import Experiment, build_experiment
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run

SMALL = {"clients": 5, "cohort": 3, "rounds": 6, "data": {"name": "quadratic", "samples": 2, "dimension": 3}}
PICTURES = {"clients": 100, "cohort": 10, "rounds": 2, "model": {"name": "mlp", "hidden": 16}}


def experiment(algorithm: Algorithm | str, **changes: object) -> Experiment:
    if isinstance(algorithm, str):
        return build_experiment(load_config(SMALL | {"algorithm": {"name": algorithm}} | changes))
    return build_experiment(load_config(SMALL | changes), algorithm=algorithm)


def rehearsed(one: Experiment) -> room.Vectors:
    return room._rehearsed(one, lambda _: False)


def test_vectors_by_hand() -> None:
    """x; and the cache's v of all five with its mean, all of which come as replies of the start-up; and so on."""
    assert rehearsed(experiment(FedAvg())) == room.Vectors(server=1, clients=0, replies=3)
    assert rehearsed(experiment(FedAMD(p=0.5))) == room.Vectors(server=1 + 5 + 1, clients=0, replies=5)
    held = FedAMD(p=0.5, cache="client")  # the server has the sum and its mean
    assert rehearsed(experiment(held)) == room.Vectors(server=1 + 1 + 1, clients=5, replies=5)
    assert rehearsed(experiment(held, client_store="disk")) == room.Vectors(server=3, clients=0, replies=5)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_is_rehearsed_to_its_end(name: str) -> None:
    """What the server and the clients hold after the last round is what they hold in a run of three parameters."""
    one = experiment(name)
    run = Run(one)
    seen = []

    def count(run: Run, _: object) -> None:
        held = sum(len(stack) for key, stack in run.site.store.tensors().items() if key != "clients")
        seen.append((room._vectors(value for _, value in run.state.items()), held))

    drive([run], LoopEngine(AutogradOracle(one.model, one.dataset)), count)
    assert len(seen) == 7
    found = rehearsed(one)
    assert found.replies > 0
    assert (found.server, found.clients) in seen
    assert found.server + found.clients == max(server + held for server, held in seen)


def test_a_run_that_does_not_fit_says_so_and_leaves_nothing(monkeypatch, tmp_path) -> None:
    """1210 parameters of 4 bytes: FedAMD's cache of 100 and the replies of the start-up are 2 × 0.48 MB and a bit."""
    data = 4 * 64 * 1797 + 8 * 1797
    there_is = data + 4 * 1210 * 202
    monkeypatch.setattr(room, "host_memory", lambda: there_is)
    fedamd.run(PICTURES, out=tmp_path / "fits")
    monkeypatch.setattr(room, "host_memory", lambda: there_is - 1)
    with pytest.raises(FedamdError, match=r"this run needs at least 0\.0 GB .* and this machine has 0\.0 GB; fewer"):
        fedamd.run(PICTURES, out=tmp_path / "run")
    with pytest.raises(FedamdError, match="this run needs at least"):
        fedamd.resume(tmp_path / "fits", rounds=3)
    with pytest.raises(FedamdError, match="these 2 runs in lockstep need"):
        fedamd.sweep({"seed": [0, 1]}, PICTURES, out=tmp_path / "sweep")
    assert not (tmp_path / "run").exists()


def test_the_sentence_names_the_parts_and_a_remedy() -> None:
    vectors = room.Vectors(server=1, clients=300, replies=20)
    found = room._sentence(1, torch.device("cpu"), 10**9, 10**8, vectors, 8 * 10**9)
    assert found == (
        "this run needs at least 33.1 GB (0.1 GB for what the server remembers, 30.0 GB for what clients hold, 2.0 GB "
        "for the replies of one exchange, 1.0 GB for the data), and this machine has 8.0 GB; "
        'client_store = "disk" (or "host", for a GPU) keeps it elsewhere'
    )


def test_a_method_that_needs_its_own_model_is_left_alone(monkeypatch) -> None:
    """It looks at its fourth parameter, which the rehearsed model does not have."""

    @role("peeking")
    def peek(task, batches, grad):
        return Reply(delta=grad(task.x, batches[0]) * task.x[..., 3:4])

    class Peeking(Algorithm):
        def round(self, state, turn):
            replies = yield Exchange(peek.to(turn.cohort, Batches(1, 2), x=state.x))
            return state.next(x=state.x - 0.1 * replies["peeking"].delta.mean(0))

    wide = {"data": SMALL["data"] | {"dimension": 5}}
    assert rehearsed(experiment(Peeking(), **wide)).replies == 0
    monkeypatch.setattr(room, "_generous", lambda _: 10**15)
    assert fedamd.run(SMALL | wide, algorithm=Peeking()).summary["status"] == "finished"


def test_a_container_may_have_less_memory_than_its_machine(monkeypatch, tmp_path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CONTAINER", limit)
    machine = memory.host_memory()
    assert machine is not None
    limit.write_text("12345\n")
    assert memory.host_memory() == 12345
    limit.write_text("max\n")
    assert memory.host_memory() == machine
