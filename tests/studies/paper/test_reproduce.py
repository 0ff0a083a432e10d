"""Reproductions that go on where they were, on a tiny experiment."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from paper_support import EXPERIMENT, TINY, made_run, tiny_cell

from fedamd.errors import FedamdError
from fedamd.runs.run import Listener, Record, Run
from fedamd.studies.paper import reproduce as module
from fedamd.studies.paper.experiments import EXPERIMENTS, PaperExperiment
from fedamd.studies.paper.reproduce import (
    Protocol,
    ReproducedCurve,
    best_rates,
    chosen_experiments,
    only,
    quick,
    reproduce,
    stored,
)
from fedamd.studies.paper.store import PaperStore


def silent(_: Run, __: Record) -> None: ...


def run(
    experiment: PaperExperiment, folder: Path, protocol: Protocol = TINY, listen: Listener = silent
) -> list[ReproducedCurve]:
    ((_, outcomes),) = reproduce([experiment], folder, protocol, listen)
    return outcomes


def kept(folder: Path) -> list[ReproducedCurve]:
    return stored(EXPERIMENT, PaperStore(folder), TINY)


def lines(folder: Path) -> list[str]:
    return (folder / "tiny.jsonl").read_text().splitlines()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(EXPERIMENT, folder)
    return folder


def test_the_grid_on_one_seed_and_the_best_pairs_on_all(finished: Path) -> None:
    """Two cells, each with a grid of 4 and 3 finalists on 2 seeds: 2·(4 + 6) lines."""
    assert len(lines(finished)) == 20
    for outcome in kept(finished):
        assert set(outcome.grid) == {(0.5, 1.0), (0.5, 0.5), (0.1, 1.0), (0.1, 0.5)}
        assert [run["seed"] for run in outcome.runs] == [0, 1]
        assert all(len(run["accuracy"]) == TINY.rounds for run in outcome.runs)
        assert outcome.complete
        assert outcome.rates in best_rates({pair: [run] for pair, run in outcome.grid.items()})[:3]


def test_costs_are_kept_round_by_round(finished: Path) -> None:
    """FedAvg: 2 clients · 1 step · 4 samples a round."""
    fedavg, fedamd = kept(finished)
    assert fedavg.runs[0]["gradients"] == [8, 16, 24]
    assert fedamd.runs[0]["gradients"][-1] == fedamd.runs[0]["gradient_samples"]
    assert fedamd.runs[0]["bits"][-1] == fedamd.runs[0]["bits_up"] + fedamd.runs[0]["bits_down"]


def test_what_is_finished_is_not_computed_again(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lines(finished)
    monkeypatch.setattr(module, "Session", lambda *_, **__: pytest.fail("something was computed"))
    outcomes = run(EXPERIMENT, finished)
    assert lines(finished) == before
    assert [outcome.label for outcome in outcomes] == ["FedAvg", "FedAMD (sequential)"]


def without_times(line: str) -> str:
    return line.partition('"seconds"')[0]


@pytest.mark.parametrize("kept", [0, 1, 3, 6, 9, 15])
def test_an_interrupted_reproduction_goes_on_where_it_was(finished: Path, tmp_path: Path, kept: int) -> None:
    """Whatever lines are there already, the missing ones come, each once and with the same results."""
    whole = lines(finished)
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in whole[:kept]))
    run(EXPERIMENT, tmp_path)
    assert lines(tmp_path)[:kept] == whole[:kept]
    assert sorted(map(without_times, lines(tmp_path))) == sorted(map(without_times, whole))


def test_an_interruption_leaves_only_finished_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped within the first grid, nothing is stored, no cell is told as finished, and no experiment follows."""
    rounds = 0

    def count(_: Run, __: Record) -> None:
        nonlocal rounds
        rounds += 1

    class Pressed:
        def __enter__(self) -> Callable[[], bool]:
            return lambda: rounds >= 4

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(module, "deferred_interrupt", Pressed)
    told = list(reproduce([EXPERIMENT, replace(EXPERIMENT, name="next")], tmp_path, TINY, count))
    assert told == [(EXPERIMENT, [])]
    assert rounds == 4  # the four runs of the first grid, after one round
    assert not list(tmp_path.iterdir())


def test_a_cell_counts_from_its_first_finalist_on(finished: Path, tmp_path: Path) -> None:
    """A grid of 4, seed 0 of its 3 finalists, then seed 1 of the first of them."""
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in lines(finished)[:8]))
    (outcome,) = kept(tmp_path)
    assert (len(outcome.repeated), outcome.planned, outcome.complete) == (1, 3, False)
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in lines(finished)[:7]))
    assert kept(tmp_path) == []


def test_the_best_pair_is_the_best_on_average() -> None:
    """90 % and a collapse are worse than 80 % twice; a run that diverged counts nothing."""
    steady, bold, gone = (0.01, 1.0), (0.1, 1.0), (0.5, 1.0)
    runs = {
        gone: [made_run(0.9, status="diverged"), made_run(0.9, status="diverged")],
        bold: [made_run(0.9), made_run(0.1)],
        steady: [made_run(0.8), made_run(0.8)],
    }
    assert best_rates(runs) == [steady, bold, gone]


def test_the_kept_results_are_found_under_their_names() -> None:
    """All of Table 2: 18 pairs of rates, and three seeds."""
    folder = Path(__file__).parents[3] / "results" / "paper"
    outcomes = stored(EXPERIMENTS["table2"], PaperStore(folder), Protocol())
    assert len(outcomes) == 18
    assert all(len(outcome.grid) == 18 and len(outcome.runs) == 3 for outcome in outcomes)


def test_finished_experiments_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose every cell is kept, searched as they are declared."""
    monkeypatch.setattr(module, "build_experiment", lambda *_: pytest.fail("something was computed"))
    folder = Path(__file__).parents[3] / "results" / "paper"
    whole = [experiment for name, experiment in EXPERIMENTS.items() if name != "emnist"]  # whose data were not at hand
    for experiment, outcomes in reproduce(whole, folder, Protocol(), silent):
        assert len(outcomes) == len(experiment.cells)


def test_a_quick_one_is_a_small_share() -> None:
    few = quick(EXPERIMENTS["table2"])
    assert {cell.cohort for cell in few.cells} == {20}
    assert len(few.cells) == 6
    assert few.rates() == [(0.1, 1.0), (0.03, 1.0)]


def test_choosing() -> None:
    assert [one.name for one in chosen_experiments(["figure1", "table2"])] == ["figure1", "table2"]
    assert [cell.label for cell in only(EXPERIMENTS["table2"], ["40 clients", "FedAvg"]).cells] == ["FedAvg"]
    with pytest.raises(FedamdError, match=r"there is no 'table9' \(did you mean table2\?\)"):
        list(chosen_experiments(["table9"]))
    with pytest.raises(FedamdError, match="leaves nothing of table2"):
        only(EXPERIMENTS["table2"], ["FedProx"])
    with pytest.raises(FedamdError, match="rates: should be grid or local, not mine"):
        Protocol(rates="mine")


def test_the_server_rate_of_table_2_needs_table_2(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="run `fedamd reproduce table2` first"):
        run(EXPERIMENTS["methods-k5"], tmp_path)


def test_experiments_share_the_runs_they_have_in_common(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(finished / "tiny.jsonl", tmp_path)
    monkeypatch.setattr(module, "Session", lambda *_, **__: pytest.fail("something was computed"))
    again = replace(EXPERIMENT, name="again", cells=EXPERIMENT.cells[1:])
    (outcome,) = run(again, tmp_path)
    assert outcome.rates == kept(finished)[1].rates
    assert not (tmp_path / "again.jsonl").exists()


def schedule(finished: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *local_rates: float) -> PaperExperiment:
    """A schedule of FedAMD, in a folder where Table 2 (which is the tiny experiment) is finished."""
    shutil.copy(finished / "tiny.jsonl", folder)
    monkeypatch.setitem(module.EXPERIMENTS, "table2", EXPERIMENT)
    cells = (tiny_cell("{0,0,1}", name="fedamd", tau=3),)
    return replace(EXPERIMENT, name="figure", cells=cells, local_rates=local_rates)


def test_a_local_search_tries_every_local_rate(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the η_s that was best for FedAMD (sequential), of which the schedule is a variant."""
    _, eta_s = kept(finished)[1].rates
    figure = schedule(finished, tmp_path, monkeypatch, 4.0, 0.5, 0.01)
    (outcome,) = run(figure, tmp_path, replace(TINY, rates="local"))
    assert set(outcome.grid) == {(4.0, eta_s), (0.5, eta_s), (0.01, eta_s)}
    assert (outcome.search, len(outcome.repeated), outcome.complete) == ("local", 2, True)
    assert stored(figure, PaperStore(tmp_path), TINY) == [outcome]


def test_a_finalist_keeps_the_run_of_the_grid(finished: Path) -> None:
    """Seed 0 is computed once: the run that was chosen is the run that is told, to the last bit."""
    for outcome in kept(finished):
        for pair, runs in outcome.repeated.items():
            assert runs[0]["seconds"] == outcome.grid[pair]["seconds"]
