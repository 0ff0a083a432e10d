"""Published workloads: they ask for what was published, and run."""

import dataclasses

import pytest
import torch

from fedamd import models, workloads
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.oracles.objective import flat_parameters
from fedamd.workloads import WORKLOADS, run_workload


def test_steps_are_the_batches_of_all_epochs() -> None:
    """500 samples in batches of 50, five times over; 50 in batches of 10, once."""
    assert WORKLOADS["blazefl"].steps == 50
    assert WORKLOADS["pfl"].steps == 5


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("blazefl", 62_006), ("pfl", 1_626_442), ("flute-femnist", 1_206_590), ("flute-cifar100", 11_227_812)],
)
def test_networks_are_the_published_ones(name: str, parameters: int) -> None:
    work = WORKLOADS[name]
    images, labels = torch.zeros(1, *work.shape), torch.zeros(1, dtype=torch.int64)
    model = models.build(work.model, Dataset("one", images, labels, images, labels, classes=work.classes))
    assert flat_parameters(model).numel() == parameters


def test_a_small_one_runs_and_tells_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = dataclasses.replace(WORKLOADS["pfl"], data="nowhere", model="mlp", clients=6, cohort=2, samples=8, rounds=9)
    monkeypatch.setattr(workloads, "where", lambda _: None)
    monkeypatch.setitem(WORKLOADS, "tiny", tiny)
    result = run_workload("tiny", rounds=3)
    assert result["data"] == "random tensors of nowhere's shape"
    assert (result["rounds"], result["of"], result["extrapolated"]) == (3, 9, True)
    assert result["whole_workload"] == pytest.approx(
        result["first_round"] + 8 * result["each_round"] + result["evaluation"]
    )


def test_memory_is_that_of_the_workload() -> None:
    """Not that of what this process did before: 512 MiB that are held no more."""
    before = workloads._peak_gib()
    if before is None:
        pytest.skip("the system does not tell")
    torch.ones(1 << 27).sum()
    higher = workloads._peak_gib()
    workloads._forget_peaks("cpu")
    assert higher > before + 0.4 > workloads._peak_gib() + 0.1


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(FedamdError, match="blazefl"):
        run_workload("unknown")
