"""Every method by name: in configs, across a checkpoint, with missing replies, and in the ledger."""

import dataclasses

import pytest
import torch

from fedamd.algorithms import ALGORITHMS
from fedamd.errors import FedamdError
from fedamd.runs import checkpoint
from fedamd.runs.config import load_config, to_toml
from fedamd.runs.rounds import drive
from fedamd.runs.run import Run
from support import experiment, reference_engine, simulate

NAMES = list(ALGORITHMS)


def made(name: str):
    """The method with its presets, and steps small and few enough to stay finite on `crowd`, and quick."""
    method = ALGORITHMS[name]
    allowed = {field.name for field in dataclasses.fields(method.make)}
    settings = {"eta_s": 0.05, "small_batch": 1, "steps": 2}
    return method.make(**{key: settings[key] for key in settings.keys() & allowed} | dict(method.presets))


def test_the_methods():
    assert [
        *("fedamd", "fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedprox", "fednova", "feddyn", "mime"),
        *("mimelite", "fedlin", "scaffold", "fedpage", "bvr-l-sgd", "minibatch-sgd", "vr-marina", "pp-marina"),
        *("fedcm", "fedavg-m-vr", "scaffold-m", "scaffold-m-vr", "fedvarp", "mifa", "fedexp", "fedacg", "stem"),
        *("mime-mvr", "rg-saga", "fedlesam", "anchored"),
    ] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_named_in_a_config(name, tmp_path):
    """A config with the name alone builds the method, and the config written back builds the same one."""
    config = load_config({"algorithm": {"name": name}})
    algorithm = config.build_algorithm()
    assert type(algorithm) is ALGORITHMS[name].make
    assert all(getattr(algorithm, field) == value for field, value in ALGORITHMS[name].presets)
    (tmp_path / "again.toml").write_text(to_toml(config.plain()), encoding="utf-8")
    assert load_config(tmp_path / "again.toml").build_algorithm() == algorithm


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_names_the_key(name):
    with pytest.raises(FedamdError, match=r"algorithm\W+eta_s must be a finite number above 0"):
        load_config({"algorithm": {"name": name, "eta_s": -1.0}})


@pytest.mark.parametrize("name", NAMES)
def test_resumes_exactly(name, crowd, tmp_path):
    """Five rounds, a checkpoint on disk, five more in a new run: the state, what clients hold and the ledger are
    those of ten rounds in one go, with failures on the way."""
    whole = simulate(made(name), crowd, rounds=10, cohort=3, failure_rate=0.2)
    half = simulate(made(name), crowd, rounds=5, cohort=3, failure_rate=0.2)
    checkpoint.save(tmp_path / "half", half.tensors(), half.facts())
    resumed = Run(experiment(made(name), crowd, rounds=10, cohort=3, failure_rate=0.2))
    resumed.restore(*checkpoint.load(tmp_path / "half"))
    resumed.status = "running"
    drive([resumed], reference_engine(resumed.experiment), listen=lambda *_: None)
    assert resumed.ledger == whole.ledger
    assert resumed.tensors().keys() == whole.tensors().keys()
    assert all(torch.equal(value, whole.tensors()[key]) for key, value in resumed.tensors().items())
    assert not torch.equal(half.state.x, whole.state.x)


@pytest.mark.parametrize("name", NAMES)
def test_thirty_percent_missing(name, crowd):
    """Every method goes on to its last round with a finite model. What was sent to a client that failed was sent,
    what it would have sent back was not: fewer bits up and fewer gradients than without failures. (What more each
    method keeps is tested in its own file.)"""
    run = simulate(made(name), crowd, rounds=25, cohort=3, failure_rate=0.3)
    calm = simulate(made(name), crowd, rounds=25, cohort=3)
    assert run.status == calm.status == "finished"
    assert run.state.x.isfinite().all()
    assert sum(record.missing for record in run.records) > 10
    assert sum(record.missing for record in calm.records) == 0
    assert run.ledger.bits_up < calm.ledger.bits_up
    assert run.ledger.gradient_samples < calm.ledger.gradient_samples
