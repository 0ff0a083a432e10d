"""A user's own method, model, data and partitioner, in a folder beside the config that names them."""

import pytest

from fedamd.campaigns.compare import contestants
from fedamd.errors import FedamdError
from fedamd.runs.api import resume, run
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment

PARTS = """
from dataclasses import dataclass

import torch
from torch import nn

from fedamd.algorithms.base import Batches, Exchange, Reply, role
from fedamd.algorithms.local import LocalSteps
from fedamd.data import Dataset


@role("pupil")
def learn(task, batches, grad):
    y = task.x
    for batch in batches:
        y = y - task.eta_l * grad(y, batch)
    return Reply(delta=task.x - y)


@dataclass(frozen=True, kw_only=True)
class Halfway(LocalSteps):
    "FedAvg that goes part of the way."

    share: float = 0.5

    def round(self, state, turn):
        replies = yield Exchange(learn.to(turn.cohort, self.local_batches, x=state.x, eta_l=self.eta_l))
        pupils = replies["pupil"]
        return state.next(**self.descend(state, self.share * pupils.delta.mean(0))) if len(pupils) else state


def halfway(rate=0.1):
    return Halfway(eta_l=rate)


def blobs(seed, samples=60):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 4, generator=generator)
    targets = (inputs[:, 0] > 0).long()
    return Dataset("blobs", inputs, targets, inputs, targets, classes=2)


def every_other(dataset, clients, seed, first=0):
    return [list(range((m + first) % clients, len(dataset.inputs), clients)) for m in range(clients)]


def net(dataset, width=3):
    return nn.Sequential(nn.Linear(dataset.inputs.shape[1], width), nn.Tanh(), nn.Linear(width, dataset.classes))


def nothing(seed):
    return seed
"""

CONFIG = """
clients = 6
cohort = 3
rounds = 3
[data]
name = "{own}:blobs"
samples = 30
[partition]
name = "{own}:every_other"
first = 1
[model]
name = "{own}:net"
[algorithm]
name = "{own}:Halfway"
eta_l = 0.05
steps = 2
small_batch = 4
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module in a folder of its own, beside run.toml; the current folder is another."""
    name = f"parts_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / f"{name}.py").write_text(PARTS)
    (folder / "run.toml").write_text(CONFIG.format(own=name))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return name


def test_everything_in_a_config_can_be_a_users_own(own, tmp_path):
    result = run(tmp_path / "mine" / "run.toml", out=tmp_path / "out")
    assert result.summary["status"] == "finished"
    assert result.summary["algorithm"] == f"{own}:Halfway"
    written = load_config(tmp_path / "out" / "config.toml", stored=True).plain()
    assert written["algorithm"]["share"] == 0.5  # defaults are filled in
    longer = resume(tmp_path / "out", rounds=4)  # it remembers where the modules were
    assert longer.summary["rounds"] == 4


@pytest.mark.usefixtures("own")
def test_a_partitioner_of_the_users_own_is_called_with_its_options(tmp_path):
    made = build_experiment(load_config(tmp_path / "mine" / "run.toml"))
    assert made.clients.samples(0).tolist() == [1, 7, 13, 19, 25]
    assert made.dataset.name == "blobs"


def test_a_function_may_make_the_method_and_is_compared_with_others(own, tmp_path):
    configs, notes = contestants(
        [tmp_path / "mine" / "run.toml"], [f"{own}:halfway", "fedavg"], {"algorithm.rate": 0.2}
    )
    assert configs[0].build_algorithm().eta_l == 0.2
    assert configs[1].algorithm.options == {"eta_l": 0.05, "steps": 2, "small_batch": 4}
    assert notes == ["fedavg: no option rate, left as it is"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"algorithm.name": "{own}:Halfwy"}, r"algorithm\.name: {own} has no 'Halfwy' \(did you mean Halfway\?\)"),
        ({"algorithm.name": "{own}:Dataset"}, "{own}:Dataset is neither a subclass of fedamd.Algorithm nor a function"),
        ({"algorithm.name": "{own}:nothing", "algorithm.seed": 1}, "{own}:nothing made a int, not an Algorithm"),
        ({"algorithm.name": "{own}:halfway", "algorithm.rat": 1}, r"algorithm has no option rat \(did you mean rate"),
        ({"data.name": "{own}:nothing"}, "{own}:nothing returned a int, not a fedamd.Dataset"),
        ({"data.sample": 3}, r"has no option sample \(did you mean samples\?\)"),
        ({"partition.last": 3}, "the partitioner {own}:every_other has no option last; it takes first"),
        ({"model.widht": 3}, r"model {own}:net has no option widht \(did you mean width\?\)"),
    ],
)
def test_mistakes_with_own_parts_are_told_in_words(own, tmp_path, changes, says):
    changes = {key: value.format(own=own) if isinstance(value, str) else value for key, value in changes.items()}
    with pytest.raises(FedamdError, match=says.format(own=own)):
        build_experiment(load_config(tmp_path / "mine" / "run.toml", changes))


def test_the_number_of_clients_is_the_data_sets_where_nobody_says_otherwise():
    inferred = build_experiment(load_config({"data": {"name": "quadratic", "clients": 7}})).config
    assert (inferred.clients, inferred.cohort) == (7, 7)
    assert load_config({"clients": 5}).cohort == 5
    with pytest.raises(FedamdError, match=r"cohort \(A = 8\) must not exceed clients \(M = 7\)"):
        build_experiment(load_config({"data": {"name": "quadratic", "clients": 7}, "cohort": 8}))
