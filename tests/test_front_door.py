"""The whole public surface from one import, and what it does with objects and names."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import fedamd
from fedamd.engines.loop import LoopEngine
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle

SMALL = {"clients": 5, "cohort": 2, "rounds": 2}


def points(classes=2, clients=None):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 3, generator=generator)
    targets = (inputs[:, 0] > 0).long()
    owned = fedamd.Partition.of([list(range(m, 40, clients)) for m in range(clients)]) if clients else None
    return fedamd.Dataset("points", inputs, targets, inputs, targets, classes, clients=owned)


def test_every_public_name_is_there_and_completed():
    assert set(dir(fedamd)) == set(fedamd.__all__)
    for name in fedamd.__all__:
        assert getattr(fedamd, name) is not None
    for name in ("role", "Reply", "Exchange", "Batches", "ServerStep", "LocalSteps", "Algorithm", "State", "Turn"):
        assert name in fedamd.__all__
    with pytest.raises(AttributeError, match="no attribute 'ruun'"):
        _ = fedamd.ruun


def test_importing_the_package_does_not_wait_for_pytorch():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, fedamd; sys.exit('torch' in sys.modules)"], check=False, timeout=60
    )
    assert done.returncode == 0


def test_parts_by_name_as_sections_and_as_objects(tmp_path):
    named = fedamd.run(algorithm="fedavg", dataset="digits", model="softmax", out=tmp_path / "named", **SMALL)
    told = fedamd.load_config(tmp_path / "named" / "config.toml")
    assert (told.algorithm.name, told.data.name, told.model.name) == ("fedavg", "digits", "softmax")
    again = fedamd.run(algorithm=fedamd.FedAvg(), dataset={"name": "digits"}, model={"name": "softmax"}, **SMALL)
    assert torch.equal(named.x, again.x)


def test_the_data_set_says_how_many_clients_there_are():
    heard = []
    result = fedamd.run(dataset=points(clients=4), rounds=1, listen=lambda run, _: heard.append(run.config))
    assert (heard[0].clients, heard[0].cohort) == (4, 4)
    assert result.summary["status"] == "finished"
    with pytest.raises(FedamdError, match=r"cohort \(A = 5\) must not exceed clients \(M = 4\)"):
        fedamd.run(dataset=points(clients=4), cohort=5)


def test_an_engine_and_an_oracle_can_be_objects_and_are_recorded(tmp_path):
    data, net = points(), nn.Linear(3, 2)
    asked = []

    class Counting(LoopEngine):
        def execute(self, requests):
            asked.append(len(requests))
            return super().execute(requests)

    engine = Counting(AutogradOracle(net, data))
    mine = fedamd.run(dataset=data, model=net, engine=engine, out=tmp_path / "own", **SMALL)
    usual = fedamd.run(dataset=data, model=net, engine="loop", oracle=AutogradOracle(net, data), **SMALL)
    assert asked
    assert torch.equal(mine.x, usual.x)
    assert read(tmp_path / "own")["execution"]["engine"] == "Counting"
    fedamd.run(dataset=data, model=net, engine="loop", oracle="autograd", out=tmp_path / "named", **SMALL)
    assert read(tmp_path / "named")["execution"]["engine"] == "loop"
    assert read(tmp_path / "named")["execution"]["oracle"] == "autograd"


def read(folder):
    from fedamd.runs.sealed import read_json

    return read_json(folder / "environment.json")


def test_the_trained_model_is_a_state_dict_that_anyone_can_load(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    result = fedamd.run(dataset=points(), model=net, algorithm="fedavg", out=tmp_path / "run", **SMALL)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert weights.keys() == net.state_dict().keys()
    assert torch.equal(weights["0.weight"], result.model[0].weight)
    loaded = fedamd.load_model(tmp_path / "run", model=net)
    assert torch.equal(loaded[2].bias, result.model[2].bias)
    assert not torch.equal(net[2].bias, loaded[2].bias)  # the user's own is as it was
    with pytest.raises(FedamdError, match="an object from Python, Sequential"):
        fedamd.load_model(tmp_path / "run")


def test_a_named_model_is_loaded_by_itself_also_from_a_file_of_an_earlier_version(tmp_path):
    result = fedamd.run(model="softmax", out=tmp_path / "run", **SMALL)
    loaded = fedamd.load_model(tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), result.model.parameters(), strict=True))
    (tmp_path / "run" / "model.safetensors").unlink()
    save_file({"x": result.x}, tmp_path / "run" / "model.safetensors")
    again = fedamd.load_model(tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), result.model.parameters(), strict=True))


def test_training_starts_from_given_weights(tmp_path):
    first = fedamd.run(model="softmax", out=tmp_path / "first", **SMALL)
    starts = []
    weights = str(tmp_path / "first" / "model.safetensors")
    fedamd.run(
        model={"name": "softmax", "weights": weights},
        listen=lambda run, _: starts.append(run.experiment.x0.clone()),
        **SMALL,
    )
    assert torch.equal(starts[0], first.x)
    with pytest.raises(FedamdError, match=r"does not hold the weights of this model \(shapes"):
        fedamd.run(model={"name": "mlp", "weights": weights}, **SMALL)
    with pytest.raises(FedamdError, match=r"weights are read from \.safetensors files"):
        fedamd.run(model={"name": "mlp", "weights": "net.pt"}, **SMALL)
    with pytest.raises(FedamdError, match=r"there is no file nowhere\.safetensors"):
        fedamd.run(model={"name": "mlp", "weights": "nowhere.safetensors"}, **SMALL)


def test_compare_takes_names_sections_and_objects(tmp_path):
    methods = ["fedavg", {"name": "scaffold", "eta_l": 0.02}, fedamd.FedAMD(tau=2)]
    result = fedamd.compare(methods, dataset=points(), model=nn.Linear(3, 2), out=tmp_path / "all", **SMALL)
    assert [row["method"] for row in result.rows] == ["fedavg", "scaffold", "fedamd"]
    page = fedamd.report(tmp_path / "all", tmp_path / "page.html")
    assert "scaffold" in page.read_text()


def test_sweep_takes_objects_and_goes_on(tmp_path):
    what = {"dataset": points(), "model": nn.Linear(3, 2), "algorithm": fedamd.FedAvg(steps=1)}
    grid = {"algorithm.eta_l": [0.1, 0.01]}
    first = fedamd.sweep(grid, out=tmp_path / "sweep", **what, **SMALL)
    assert len(first.ranked) == 2
    assert fedamd.sweep(grid, out=tmp_path / "sweep", **what, **SMALL) == first


def test_progress_is_lines_where_there_is_no_terminal(capsys):
    fedamd.run(model="softmax", progress=True, **SMALL)
    assert "round    2/2" in capsys.readouterr().out
