"""Runs of objects given from Python leave records that say what really ran."""

import copy
import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import fedamd
from fedamd.algorithms import FedAMD, FedAvg
from fedamd.algorithms.local import LocalSteps
from fedamd.data import Dataset
from fedamd.errors import FedamdError
from fedamd.report.content import page_sections, page_title
from fedamd.report.curves import draw_curves
from fedamd.report.stored import read_runs
from fedamd.runs.config import load_config
from fedamd.runs.given import tell_algorithm
from fedamd.runs.sealed import read_json, sealed_json


def third_of_rounds(t):
    return 0.3 + t * 0


def blobs(name="blobs", seed=0, classes=3):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(48, 4, generator=generator)
    targets = torch.arange(48) % classes
    return Dataset(name, inputs, targets, inputs, targets, classes=classes)


def net(seed=0, classes=3):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, classes))


def train(out=None, **what):
    given = {"algorithm": FedAvg(eta_l=0.05, steps=2, small_batch=4), "dataset": blobs(), "model": net()} | what
    return fedamd.run(out=out, rounds=2, clients=4, cohort=2, **given)


def test_a_config_says_what_ran(tmp_path):
    train(tmp_path / "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    told = load_config(tmp_path / "run" / "config.toml", stored=True)
    assert (told.algorithm.name, told.algorithm.options["eta_l"], told.data.name) == ("fedavg", 0.05, "blobs")
    assert told.model.name == "Sequential"
    assert "give it again as model=" in text
    assert "give it again as dataset=" in text
    assert "digits" not in text
    assert "fedamd" not in text.partition("#")[0]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["algorithm"] == "fedavg"


def test_a_config_that_tells_of_an_object_asks_for_it(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(FedamdError, match=r"an object from Python, blobs: give it again as dataset=…"):
        fedamd.resume(tmp_path / "run", model=net())
    with pytest.raises(FedamdError, match=r"an object from Python, Sequential: give it again as model=…"):
        fedamd.resume(tmp_path / "run", dataset=blobs())


def test_a_method_of_plain_numbers_is_written_as_if_it_had_been_named(tmp_path):
    """So its config repeats the run by itself."""
    method = FedAMD(eta_l=0.07, steps=2, small_batch=4, p=third_of_rounds)
    first = fedamd.run(out=tmp_path / "one", rounds=2, clients=5, algorithm=method)
    again = fedamd.run(tmp_path / "one" / "config.toml", out=tmp_path / "two")
    assert torch.equal(first.x, again.x)
    assert load_config(tmp_path / "one" / "config.toml").algorithm.options["p"].endswith(":third_of_rounds")


def test_what_cannot_be_named_is_told_by_its_name_and_a_fingerprint():
    @dataclass(frozen=True, kw_only=True)
    class Own(LocalSteps):
        def round(self, state, turn):  # noqa: ARG002
            yield from ()
            return state

    told = [tell_algorithm(Own(eta_l=rate)) for rate in (0.1, 0.2, 0.1)]
    assert told[0]["name"] == "Own"
    assert told[0] == told[2] != told[1]


def test_the_objects_given_are_never_changed():
    mine = net()
    before = copy.deepcopy(mine.state_dict())
    first, second = train(model=mine), train(model=mine)
    assert all(torch.equal(before[name], value) for name, value in mine.state_dict().items())
    assert torch.equal(first.x, second.x)
    assert not torch.equal(first.model[0].weight, before["0.weight"])


def test_a_run_goes_on_with_the_same_objects_only(tmp_path):
    train(tmp_path / "run")
    begun = {"dataset": blobs(), "model": net()}
    assert fedamd.resume(tmp_path / "run", rounds=3, **begun).summary["rounds"] == 3
    for other, says in (
        ({"model": net(seed=1)}, "another model .fingerprint was"),
        ({"dataset": blobs(seed=1)}, "another data .fingerprint was"),
        ({"algorithm": FedAvg(eta_l=0.06, steps=2, small_batch=4)}, "another algorithm .eta_l was 0.05, is 0.06"),
    ):
        with pytest.raises(FedamdError, match=says):
            fedamd.resume(tmp_path / "run", rounds=4, **(begun | other))
    same = FedAvg(eta_l=0.05, steps=2, small_batch=4)
    assert fedamd.resume(tmp_path / "run", rounds=4, algorithm=same, **begun).summary["rounds"] == 4


def test_a_report_on_object_runs_has_true_labels_and_their_own_classes(tmp_path):
    """Three runs of different objects, and a repetition of the first with the same seed: nothing is merged."""
    train(tmp_path / "a")
    train(tmp_path / "b", model=net(seed=1))
    train(tmp_path / "c", dataset=blobs("leaves", classes=2), model=net(classes=2))
    train(tmp_path / "d")
    runs = read_runs([tmp_path / name for name in "abcd"])
    labels = [curve.label for curve in draw_curves(runs)]
    assert len(set(labels)) == 4
    assert all(label.startswith("fedavg") for label in labels)
    assert labels[3] == f"{labels[0]} #2"
    assert page_title(runs) == "fedavg on blobs and leaves"
    bars = [section for section in page_sections(runs) if "Samples of the clients" in section.title]
    drawn = [[stack["label"] for stack in section.stacks] for section in bars]
    assert drawn == [["class 0", "class 1", "class 2"], ["class 0", "class 1"]]


def test_a_folder_of_an_earlier_version_is_told_by_its_objects(tmp_path):
    """Its config said fedamd on digits, and only environment.json what was given."""
    fedamd.run(out=tmp_path / "old", rounds=1, clients=5, model={"name": "softmax"})
    path = tmp_path / "old" / "environment.json"
    given = {"dataset": "blobs", "algorithm": "FedAvg(eta_s=1.0, eta_l=0.05)"}
    path.write_text(sealed_json(read_json(path) | {"given": given}))
    (stored,) = read_runs([tmp_path / "old"])
    assert page_title([stored]) == "FedAvg on blobs"
