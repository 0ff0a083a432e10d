"""Bit for bit: a resumed run is one that never stopped, wherever its memory lies and however many threads it has."""

import random
import shutil

import pytest
import torch

import fedamd
from fedamd.algorithms import ALGORITHMS

USUAL = ("fedamd", "fedlin", "scaffold", "mime", "feddyn")
METHODS = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]
EVERYBODY = ("vr-marina",)  # needs all clients in every round
CONFIG = {
    "data": {"name": "logistic", "samples": 7, "dimension": 13},
    "clients": 6,
    "cohort": 3,
    "rounds": 5,
    "checkpoint_every": 1,
    "engine": "loop",
}


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore:.*the number of threads was")  # it may matter to other models, not to these
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_the_heap_the_alignment_and_the_threads_do_not_matter(method, dtype, tmp_path):
    cohort = {"cohort": CONFIG["clients"]} if method in EVERYBODY else {}
    config = CONFIG | cohort | {"dtype": dtype, "algorithm": {"name": method}}
    copies = []

    def copy(run, _):
        if (tmp_path / "run" / "checkpoint.safetensors").exists() and 1 <= run.t < 5:
            copies.append(shutil.copytree(tmp_path / "run", tmp_path / f"copy{run.t}"))

    whole = fedamd.run(config, out=tmp_path / "run", listen=copy)
    chance = random.Random(f"{method} {dtype}")
    assert len(copies) == 4
    for folder in copies:
        clutter = [torch.empty(chance.randint(1, 5000), dtype=torch.uint8) for _ in range(200)]
        del clutter[:: chance.randint(2, 5)]  # holes of all sizes
        torch.set_num_threads(chance.randint(1, 3))
        again = fedamd.resume(folder)
        assert torch.equal(again.x, whole.x)
        assert [record.loss for record in again.metrics] == [record.loss for record in whole.metrics]
