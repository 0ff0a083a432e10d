"""A million clients: nothing the size of M is made, and the store on disk changes nothing."""

import json
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import fedamd
from fedamd.data.virtual import EqualSizes, VirtualPartition
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment

MILLION = 10**6
MASSIVE: dict[str, Any] = {
    "clients": MILLION,
    "cohort": 10,
    "rounds": 4,
    "checkpoint_every": 2,
    "oracle": "autograd",
    "client_store": "disk",
    "partition": {"name": "virtual", "samples_per_client": 20},
    "model": {"name": "softmax"},
    "algorithm": {"cache": "client", "start_up": "lazy", "p": 0.5, "steps": 2, "small_batch": 4},
}


@pytest.mark.parametrize("start_up", ["lazy", "zeros"])
def test_nothing_the_size_of_the_federation_is_made(start_up, tmp_path):
    """A list of M numbers takes 8 MB and a vector of M as much; all that Python allocates stays below half of that."""
    fedamd.run(MASSIVE, out=tmp_path / "warm-up", clients=100)  # what libraries keep is not the run's
    tracemalloc.start()
    result = fedamd.run(MASSIVE, out=tmp_path / "run", **{"algorithm.start_up": start_up})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6
    assert result.summary["status"] == "finished"
    assert result.summary["start_up"]["gradient_samples"] == 0
    largest = max((tmp_path / "run").iterdir(), key=lambda path: path.stat().st_size)
    assert largest.stat().st_size < 1e6


def test_tensors_of_the_federation_do_not_grow_with_it():
    experiment = build_experiment(load_config(MASSIVE))
    assert isinstance(experiment.clients, VirtualPartition)
    assert isinstance(experiment.federation.sizes, EqualSizes)
    dialogue = experiment.algorithm.start(experiment.x0, experiment.federation)
    with pytest.raises(StopIteration) as end:  # nobody is asked anything
        next(dialogue)
    sizes = {name: value.numel() for name, value in end.value.value.items()}
    assert max(sizes.values()) == experiment.x0.numel()


def test_the_federation_is_asked_for_its_size_once():
    """Weights by samples need n_1 + … + n_M: added up once for a run, not in every round."""
    experiment = build_experiment(load_config(MASSIVE, {"clients": 1000, "algorithm.weights": "samples"}))
    assert experiment.federation is experiment.federation
    assert experiment.federation.samples == 20_000


@pytest.mark.parametrize("method", ["fedamd", "scaffold"])
def test_the_store_on_disk_is_the_store_in_memory(method, tmp_path):
    config = MASSIVE | {"clients": 30, "rounds": 9, "failure_rate": 0.2, "checkpoint_every": 4}
    if method == "scaffold":
        config |= {"algorithm": {"name": "scaffold", "steps": 2, "small_batch": 4}}
    left = []
    for store in ("disk", "memory"):
        folder = tmp_path / store
        fedamd.run(config, out=folder, client_store=store)
        metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        untimed = [record | {"seconds": 0, "check": ""} for record in metrics]
        left.append((untimed, (folder / "model.safetensors").read_bytes()))
    assert left[0] == left[1]
    assert held_rows(tmp_path / "disk" / "held.sqlite") > 5


def held_rows(path: Path) -> int:
    with sqlite3.connect(path) as file:
        count: int = file.execute("SELECT count(DISTINCT client) FROM vectors").fetchone()[0]
    file.close()
    return count
