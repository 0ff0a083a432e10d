"""An error inside a user's own code is told with the client, the round and the stage, its file and its line."""

import inspect
import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import fedamd
from fedamd import Batches, Callback, Dataset, Exchange, FedamdError, Reply, ServerStep, registry, role
from fedamd.cli.main import main
from fedamd.errors import UserCodeError, at_work, described, round_named
from fedamd.flower.local.inprocess import run_in_process
from fedamd.flower.local.launch import read_app
from fedamd.participation import Sampler
from support import torchrun

BAD = 13.0  # the input of the one sample that nobody can work with: client 3 has it


class Oops(Exception):
    """A user's own error."""


@role("worker")
def walk(task, batches, grad):
    y = task.x
    for batch in batches:
        y = y - 0.1 * grad(y, batch)
    if torch.as_tensor(task.fail_role).max() > 0 and (batches[0].samples == 3).any():
        raise Oops("in the role")
    return Reply(delta=task.x - y)


@dataclass(frozen=True, kw_only=True)
class Walk(ServerStep):
    """One client has one sample, and its role fails in round 1; or the server does, after its clients have replied."""

    fails: str = ""

    def round(self, state, turn):
        fail_role = float(self.fails == "role" and turn.t == 1)
        yield Exchange(walk.to((0,), Batches(1, "full"), x=state.x, fail_role=0.0))  # stage 0
        replies = yield Exchange(walk.to(range(4), Batches(1, "full"), x=state.x, fail_role=fail_role))
        if self.fails == "server" and turn.t == 1:
            raise Oops("in the server")
        return state.next(**self.descend(state, replies["worker"].delta.mean(0)))


class Net(nn.Module):
    """Its forward or its loss fails on the bad sample; never at the first look at the model, which sees no client."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)
        self.fails = fails
        self.looks = 0

    def forward(self, inputs):
        if self.fails == "forward" and (inputs == BAD).any() and len(inputs) == 1:
            raise Oops("in the model")
        return self.layer(inputs)

    def loss(self, outputs, targets):
        if self.fails == "loss" and len(targets) == 1 and targets[0] == 1:
            raise Oops("in the loss")
        return nn.functional.cross_entropy(outputs, targets, reduction="none")


def four_clients() -> Dataset:
    """One sample each; client 3 has the bad one, the only one of class 1."""
    inputs, targets = torch.tensor([[0.0], [1.0], [2.0], [BAD]]), torch.tensor([0, 0, 0, 1])
    owners = fedamd.Partition.of([[0], [1], [2], [3]])
    return Dataset("four", inputs, targets, inputs, targets, 2, owners)


def train(fails: str = "", net: str = "", **more):
    config = {"rounds": 3, "cohort": 4, "oracle": "autograd"} | more
    return fedamd.run(config, dataset=four_clients(), model=Net(net), algorithm=Walk(fails=fails))


def line_of(function, text: str) -> str:
    """ "file, line n" of the line of this function that has this text."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}, line {first + next(n for n, line in enumerate(lines) if text in line)}"


def test_nothing_fails_where_nothing_is_wrong():
    for engine in ("loop", "vector"):
        assert train(engine=engine).summary["status"] == "finished"


@pytest.mark.parametrize("engine", ["loop", "vector"])
def test_a_role(engine):
    with pytest.raises(FedamdError, match="client 3 as worker in round 1, stage 1: Oops: in the role") as caught:
        train("role", engine=engine)
    assert isinstance(caught.value.__cause__, Oops)
    assert line_of(walk.run, "raise Oops") in str(caught.value)


@pytest.mark.parametrize("engine", ["loop"])  # functions that look at single values cannot be vectorised
@pytest.mark.parametrize(("net", "says"), [("forward", "in the model"), ("loss", "in the loss")])
def test_a_model_and_its_loss(engine, net, says):
    with pytest.raises(FedamdError, match=f"client 3 as worker in round 0, stage 1: Oops: {says}") as caught:
        train(net=net, engine=engine)
    assert isinstance(caught.value.__cause__, Oops)
    assert line_of(getattr(Net, net), "raise Oops") in str(caught.value)


class PickyNet(nn.Linear):
    """Can be vectorised, and fails on batches of four samples."""

    def __init__(self) -> None:
        super().__init__(1, 2)

    def forward(self, inputs):
        if len(inputs) == 4:
            raise Oops("four samples")
        return super().forward(inputs)


@pytest.mark.parametrize("engine", ["loop", "vector"])
def test_a_model_that_is_vectorised(engine):
    """Client 2 has four samples; in a stack all batches are as wide as its own."""
    inputs, targets = torch.arange(6.0).unsqueeze(-1), torch.tensor([0, 1] * 3)
    data = Dataset("six", inputs, targets, inputs, targets, 2, fedamd.Partition.of([[0], [1], [2, 3, 4, 5]]))
    with pytest.raises(FedamdError, match="client 2 as worker in round 0, stage 0: Oops: four samples") as caught:
        fedamd.run(dataset=data, model=PickyNet(), algorithm=Alone(stacks=True), rounds=1, cohort=3, engine=engine)
    assert isinstance(caught.value.__cause__, Oops)
    assert line_of(PickyNet.forward, "raise Oops") in str(caught.value)


@role("worker")
def alone(task, batches, grad):
    if task.x.dim() > 1 and not task.stacks.all():
        raise Oops("not written for stacks")
    return Reply(delta=grad(task.x, batches[0]))


@dataclass(frozen=True, kw_only=True)
class Alone(ServerStep):
    stacks: bool = False

    def round(self, state, turn):
        order = alone.to(turn.cohort, Batches(1, "full"), x=state.x, stacks=float(self.stacks))
        replies = yield Exchange(order)
        return state.next(**self.descend(state, replies["worker"].delta.mean(0)))


def test_a_role_that_fails_in_stacks_alone():
    with pytest.raises(FedamdError, match=r"round 0, stage 0, played as one stack .*loop.*not written for stacks"):
        fedamd.run(dataset=four_clients(), model=Net(), algorithm=Alone(), rounds=1, cohort=4, engine="vector")


def test_the_servers_side():
    with pytest.raises(FedamdError, match="the server's side of Walk in round 1, before stage 2: Oops: in the server"):
        train("server")


class BrokenSampler(Sampler):
    def cohort(self, t, seed, size, sizes):  # noqa: ARG002
        if t == 2:
            raise Oops("in the sampler")
        return tuple(range(size))


def broken_schedule(t):
    if t == 1:
        raise Oops("in the schedule")
    return 1.0


def broken_metric(outputs, targets):  # noqa: ARG001
    if len(outputs) == 4:
        raise Oops("in the metric")
    return 0.0


class BrokenCallback(Callback):
    def recorded(self, run, record):  # noqa: ARG002
        if record.round == 1:
            raise Oops("in the callback")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"sampler": {"name": f"{__name__}:BrokenSampler"}},
            "the sampler BrokenSampler in round 2: Oops: in the sampler",
        ),
        ({"schedules": {"eta_s": f"{__name__}:broken_schedule"}}, "schedules.eta_s failed in round 1: Oops"),
        (
            {"metrics": [f"{__name__}:broken_metric"]},
            r"the evaluation after the start-up pass, the metric broken_metric failed on outputs of shape \(4, 2\)",
        ),
        ({"callbacks": [f"{__name__}:BrokenCallback"]}, "the callback BrokenCallback failed after 2 rounds: Oops"),
    ],
)
def test_what_steers_and_measures(changes, says):
    with pytest.raises(FedamdError, match=says) as caught:
        train(**changes)
    assert isinstance(caught.value.__cause__, Oops)
    assert f"{__file__}, line " in str(caught.value)


def test_a_metric_on_a_clients_own_tests():
    def own_tests_only(outputs, targets):  # noqa: ARG001
        if len(outputs) < 100:
            raise Oops("too few")
        return 0.0

    sys.modules[__name__].own_tests_only = own_tests_only
    with pytest.raises(
        FedamdError, match=r"the start-up pass, the tests of client 0, the metric own_tests_only failed"
    ):
        fedamd.run(
            clients=10,
            cohort=2,
            rounds=1,
            test_share=0.2,
            evaluate_clients_every=1,
            metrics=[f"{__name__}:own_tests_only"],
        )


# --- in words ---


def test_places_come_from_the_outside_in_and_mistakes_in_input_pass():
    with (
        pytest.raises(UserCodeError, match="round 3, the metric: ZeroDivisionError: division by zero") as caught,
        at_work("round 3"),
        at_work("the metric"),
    ):
        1 / 0  # noqa: B018
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(FedamdError, match=r"^as it was$"), at_work("round 3"):
        raise FedamdError("as it was")


def test_one_line_however_much_an_error_says():
    with pytest.raises(RuntimeError) as caught:
        torch.zeros(2) @ torch.zeros(3)
    assert "\n" not in described(caught.value)
    assert described(caught.value).endswith(f"({__file__}, line {caught.tb.tb_lineno})")
    assert described(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert (round_named(0), round_named(-1)) == ("round 0", "the start-up pass")


# --- from the command line, and over Flower ---

PARTS = """
from dataclasses import dataclass
from fedamd import Batches, Exchange, Reply, ServerStep, role


@role("worker")
def walk(task, batches, grad):
    if bool((grad(task.x, batches[0]) == 0).all()):
        return Reply(delta=task.x)
    raise ArithmeticError("too steep")


@dataclass(frozen=True, kw_only=True)
class Steep(ServerStep):
    def round(self, state, turn):
        replies = yield Exchange(walk.to(turn.cohort, Batches(1, 8), x=state.x))
        return state.next(**self.descend(state, replies["worker"].delta.mean(0)))
"""
CONFIG = """
clients = 2
cohort = 2
rounds = 2
engine = "loop"
oracle = "autograd"
[algorithm]
name = "{module}:Steep"
[partition]
name = "iid"
[federation]
folder = "{folder}"
attempts = 1
"""


@pytest.fixture
def user_modules(monkeypatch):
    """What a test makes importable is gone after it."""
    monkeypatch.setattr(registry, "_folders", list(registry._folders))
    monkeypatch.setattr(sys, "path", list(sys.path))


def written(folder: Path, module: str) -> Path:
    (folder / f"{module}.py").write_text(textwrap.dedent(PARTS))
    config = folder / "config.toml"
    config.write_text(CONFIG.format(module=module, folder=folder / "federated"))
    return config


@pytest.mark.usefixtures("user_modules")
def test_the_command_line_prints_one_sentence_and_with_debug_the_calls(tmp_path, monkeypatch, capsys):
    config = written(tmp_path, "own_steep")
    config.write_text(config.read_text().partition("[federation]")[0])

    def told(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedamd", *words, str(config), "--out", str(tmp_path / "run")])
        with pytest.raises(SystemExit, match="2"):
            main()
        shutil.rmtree(tmp_path / "run")
        return capsys.readouterr().err

    monkeypatch.setenv("FEDAMD_DEBUG", "1")
    by_environment = told("run")
    monkeypatch.delenv("FEDAMD_DEBUG")
    plain = told("run")
    where = f"{tmp_path / 'own_steep.py'}, line 10"
    assert plain in [
        f"error: client {client} as worker in round 0, stage 0: ArithmeticError: too steep ({where})\n"
        for client in (0, 1)
    ]
    for shown in (by_environment, told("--debug", "run")):
        assert "Traceback" in shown
        assert 'raise ArithmeticError("too steep")' in shown
        assert shown.endswith(plain)


@pytest.mark.slow
def test_in_several_processes_all_end_with_the_sentence(tmp_path):
    config = written(tmp_path, "own_steep")
    config.write_text(config.read_text().partition("[federation]")[0])
    process = torchrun(2, "-m", "fedamd", "--debug", "run", str(config), "--out", str(tmp_path / "run"))
    _, errors = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "as worker in round 0, stage 0: ArithmeticError: too steep" in errors
    assert "own_steep.py, line 10" in errors
    assert "another process of this run was lost" not in errors


@pytest.mark.usefixtures("user_modules")
def test_over_flower(tmp_path):
    config = written(tmp_path, "own_steep_flower")
    with pytest.raises(
        FedamdError,
        match=r"client \d as worker: failed \(UserCodeError: client \d as worker in round 0, stage 0: ArithmeticError: "
        r"too steep \(.*own_steep_flower.py, line 10\)\)",
    ):
        run_in_process(config, read_app(config))
