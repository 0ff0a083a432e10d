"""Which engine and oracle a run gets, and what is said when it is not the fastest."""

import logging

import pytest
import torch
from torch import Tensor, nn

from fedamd.data.base import Dataset
from fedamd.engines import LoopEngine, VectorEngine, choose_engine, make_engine
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle
from fedamd.oracles.base import Batch
from fedamd.oracles.catalogue import ORACLES
from fedamd.oracles.native.oracle import NativeOracle

INPUTS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 3
DATA = Dataset("points", INPUTS, LABELS, INPUTS, LABELS, 3)


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def curved() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.usefixtures("library")
def test_the_fastest_that_takes_the_model_is_chosen():
    resolved = choose_engine("auto", "auto", plain(), DATA)
    assert isinstance(resolved.engine, VectorEngine)
    assert resolved.facts() == {
        "engine": "vector",
        "precision": "float32",
        "oracle": "native",
        "same_bits_in_any_stack": True,
    }


def test_why_a_faster_one_was_not_taken():
    resolved = choose_engine("auto", "auto", curved(), DATA)
    assert isinstance(resolved.engine, LoopEngine)
    facts = resolved.facts()
    assert (facts["engine"], facts["oracle"]) == ("loop", "autograd")
    assert facts["passed_over"].keys() == {"native"}
    assert "Tanh() is none of the layers" in facts["passed_over"]["native"]
    assert facts["passed_over"]["native"].endswith("Linear, Dropout")


def test_a_missing_library_is_said_with_the_remedy_where_it_would_have_been_used(monkeypatch, caplog):
    monkeypatch.setattr(NativeOracle, "unavailable", lambda: "its library is not built; build it")
    with caplog.at_level(logging.WARNING, "fedamd"):
        choose_engine("auto", "auto", curved(), DATA)
        assert not caplog.messages
        resolved = choose_engine("auto", "auto", plain(), DATA)
    assert caplog.messages == [
        "this run is slower than it could be: for the oracle native, its library is not built; build it"
    ]
    assert resolved.facts() == {
        "engine": "loop",
        "precision": "float32",
        "oracle": "autograd",
        "same_bits_in_any_stack": False,
        "passed_over": {"native": "its library is not built; build it"},
    }


class Halved(AutogradOracle):
    """Not the model's gradient."""

    name = "halved"

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        gradient, loss = super().gradient(x, batch)
        return gradient / 2, loss


def test_an_oracle_that_computes_something_else_does_not_run(monkeypatch, caplog):
    monkeypatch.setitem(ORACLES._entries, "halved", Halved)
    with caplog.at_level(logging.WARNING, "fedamd"):
        resolved = choose_engine("loop", "halved", plain(), DATA)
    assert caplog.messages == [
        "the oracle halved does not compute this model: its gradient is 50.0% off autograd's in float64; using autograd"
    ]
    assert resolved.facts()["oracle"] == "autograd"
    assert resolved.facts()["passed_over"] == {"halved": "its gradient is 50.0% off autograd's in float64"}


def test_objects_are_taken_as_they_are():
    oracle = Halved(plain(), DATA)
    resolved = choose_engine("auto", oracle, plain(), DATA)
    assert resolved.oracle is oracle
    assert resolved.facts()["oracle"] == "halved"
    engine = LoopEngine(oracle)
    given = choose_engine(engine, "auto", plain(), DATA)
    assert given.engine is engine
    assert given.facts() == {"engine": "LoopEngine", "precision": "float32"}


def test_ones_own_oracle_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "own_oracle.py").write_text(
        "from fedamd.oracles.autograd import AutogradOracle\n"
        "class Mine(AutogradOracle):\n    name = 'mine'\n    stacks_on = ('cpu',)\n"
        "mistake = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    resolved = choose_engine("auto", "own_oracle:Mine", curved(), DATA)
    assert resolved.facts()["oracle"] == "mine"
    assert isinstance(resolved.engine, VectorEngine)
    with pytest.raises(FedamdError, match="oracle: own_oracle:mistake is not a class of oracles"):
        make_engine("auto", "own_oracle:mistake", curved(), DATA)


def test_names_that_cannot_be():
    with pytest.raises(FedamdError, match=r"oracle = native cannot be used here: .*Tanh.*; use oracle = autograd"):
        make_engine("loop", "native", curved(), DATA)
    with pytest.raises(FedamdError, match=r"oracle: there is no 'naive' .did you mean native"):
        make_engine("loop", "naive", plain(), DATA)
    with pytest.raises(FedamdError, match=r"engine: there is no 'lop' .did you mean loop"):
        make_engine("lop", "autograd", plain(), DATA)
