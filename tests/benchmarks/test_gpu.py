"""The GPU's benchmarks run from beginning to end, with tiny sizes on a CPU."""

import importlib
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("gpu")
    unhurried = {part: (measurements, 3600) for part, (measurements, _) in module.PARTS.items()}
    monkeypatch.setattr(module, "PARTS", unhurried)  # however slow the machine, nothing is to be left out
    return module


def measured(gpu, tmp_path, *words):
    gpu.main(["--device", "cpu", "--tiny", "--json", str(tmp_path / "gpu.json"), *words])
    return json.loads((tmp_path / "gpu.json").read_text())


def test_small_networks_are_timed_round_by_round(gpu, tmp_path, capsys):
    found = measured(gpu, tmp_path, "--only", "w", "unequal", "--grid")
    rows = [row for part in ("w", "unequal", "grid") for row in found[part].values()]
    assert [row["rounds"] for row in rows] == [3, 3, 3, 4, 4, 4, 4, 1, 1, 2]
    assert all(len(row["rounds_s"]) == row["rounds"] and min(row["rounds_s"]) > 0 for row in rows)
    sizes = {name: (row["smallest"], row["largest"]) for name, row in found["unequal"].items()}
    assert sizes["equal"] == (20, 20)
    assert all(row["gradients_a_round"] > 0 for row in found["unequal"].values())
    assert sizes["Dirichlet(0.1)"][0] < 20 < sizes["Dirichlet(0.1)"][1]
    assert "Dirichlet(0.3)" in capsys.readouterr().out


def test_published_workloads_are_timed(gpu, tmp_path):
    rows = measured(gpu, tmp_path, "--only", "workloads")["workloads"]
    assert list(rows) == ["blazefl", "blazefl, again in this process", "pfl"]
    assert {(row["rounds"], row["data"]) for row in rows.values()} == {(2, "random 3×32×32")}


def test_runs_have_their_bits_in_any_grid_and_are_near_the_reference(gpu, tmp_path):
    bits, *rows = measured(gpu, tmp_path, "--only", "bits")["bits"].values()
    costs, distances = rows[:2], rows[2:]
    assert (bits["rounds"], bits["equal"]) == (3, 3)
    assert all(row["times"] == row["round_s"] / row["round_by_library_s"] for row in costs)
    assert all(0 <= row["distance"] < 0.05 for row in distances)


def test_accuracies_of_every_precision_are_those_of_the_same_number_of_rounds(gpu, tmp_path):
    rows = measured(gpu, tmp_path, "--only", "precision")["precision"]
    assert list(rows) == ["lenet5, float32", "lenet5, bf16"]
    for row in rows.values():
        assert row["rounds"] == 2
        assert row["accuracy"] == pytest.approx(sum(row["of_seeds"]) / 5)


def test_what_fails_or_has_no_time_left_is_told_as_that(gpu, tmp_path, monkeypatch):
    def fails():
        raise ValueError("no such kernel")

    monkeypatch.setitem(gpu.PARTS, "w", (lambda _: {"one": fails, "two": lambda: {"rounds": 1}}, 60))
    monkeypatch.setitem(gpu.PARTS, "bits", (lambda _: {"three": fails}, -70))
    with pytest.raises(SystemExit, match="1 measurement failed"):
        measured(gpu, tmp_path, "--only", "w", "bits")
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["w"] == {"one": {"failed": "ValueError: no such kernel"}, "two": {"rounds": 1}}
    assert list(found["bits"]["three"]) == ["left out"]


@pytest.mark.slow
def test_residual_networks_are_timed(gpu, tmp_path):
    rows = measured(gpu, tmp_path, "--only", "resnet")["resnet"]
    assert {row["rounds"] for row in rows.values()} == {2}
