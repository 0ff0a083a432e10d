"""Reproductions that go on where they were, on a tiny experiment."""

from collections.abc import Callable
from pathlib import Path

import pytest
from paper_support import EXPERIMENT, TINY, made_run

from fedamd.errors import FedamdError
from fedamd.paper import reproduce as module
from fedamd.paper.experiments import EXPERIMENTS
from fedamd.paper.reproduce import Protocol, best_rates, chosen_experiments, only, quick, reproduce, stored
from fedamd.runs.run import Record, Run


def silent(_: Run, __: Record) -> None: ...


def lines(folder: Path) -> list[str]:
    return (folder / "tiny.jsonl").read_text().splitlines()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    reproduce(EXPERIMENT, folder, TINY, silent)
    return folder


def test_the_grid_on_one_seed_and_the_best_pairs_on_all(finished: Path) -> None:
    """Two cells, each with a grid of 3 and 2 finalists on 2 seeds: 2·(3 + 4) lines."""
    assert len(lines(finished)) == 14
    for outcome in stored(EXPERIMENT, finished, TINY):
        assert set(outcome.grid) == {(0.5, 1.0), (0.1, 1.0), (0.01, 1.0)}
        assert [run["seed"] for run in outcome.runs] == [0, 1]
        assert all(len(run["accuracy"]) == TINY.rounds for run in outcome.runs)
        assert outcome.complete
        assert outcome.rates in best_rates({pair: [run] for pair, run in outcome.grid.items()})[:2]


def test_costs_are_kept_round_by_round(finished: Path) -> None:
    """FedAvg: 2 clients · 1 step · 4 samples a round."""
    fedavg, fedamd = stored(EXPERIMENT, finished, TINY)
    assert fedavg.runs[0]["gradients"] == [8, 16, 24]
    assert fedamd.runs[0]["gradients"][-1] == fedamd.runs[0]["gradient_samples"]
    assert fedamd.runs[0]["bits"][-1] == fedamd.runs[0]["bits_up"] + fedamd.runs[0]["bits_down"]


def test_what_is_finished_is_not_computed_again(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lines(finished)
    monkeypatch.setattr(module, "drive", lambda *_: pytest.fail("something was computed"))
    outcomes = reproduce(EXPERIMENT, finished, TINY, silent)
    assert lines(finished) == before
    assert [outcome.label for outcome in outcomes] == ["FedAvg", "FedAMD (sequential)"]


def without_times(line: str) -> str:
    return line.partition('"seconds"')[0]


@pytest.mark.parametrize("kept", [0, 1, 3, 5, 9, 13])
def test_an_interrupted_reproduction_goes_on_where_it_was(finished: Path, tmp_path: Path, kept: int) -> None:
    """Whatever lines are there already, the missing ones come, each once and with the same results."""
    whole = lines(finished)
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in whole[:kept]))
    reproduce(EXPERIMENT, tmp_path, TINY, silent)
    assert lines(tmp_path)[:kept] == whole[:kept]
    assert sorted(map(without_times, lines(tmp_path))) == sorted(map(without_times, whole))


def test_an_interruption_leaves_only_finished_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped within the first grid, nothing is stored, and no cell is told as finished."""
    rounds = 0

    def count(_: Run, __: Record) -> None:
        nonlocal rounds
        rounds += 1

    class Pressed:
        def __enter__(self) -> Callable[[], bool]:
            return lambda: rounds >= 4

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(module, "deferred_interrupt", Pressed)
    assert reproduce(EXPERIMENT, tmp_path, TINY, count) == []
    assert not (tmp_path / "tiny.jsonl").exists()


def test_a_cell_counts_from_its_first_finalist_on(finished: Path, tmp_path: Path) -> None:
    """A grid of 3, then the 2 seeds of the first of 2 finalists."""
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in lines(finished)[:5]))
    (outcome,) = stored(EXPERIMENT, tmp_path, TINY)
    assert (len(outcome.repeated), outcome.planned, outcome.complete) == (1, 2, False)
    (tmp_path / "tiny.jsonl").write_text("".join(line + "\n" for line in lines(finished)[:4]))
    assert stored(EXPERIMENT, tmp_path, TINY) == []


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
    folder = Path(__file__).parents[2] / "results" / "paper"
    outcomes = stored(EXPERIMENTS["table2"], folder, Protocol())
    assert len(outcomes) == 18
    assert all(len(outcome.grid) == 18 and len(outcome.runs) == 3 for outcome in outcomes)


def test_a_quick_one_is_a_small_share() -> None:
    few = quick(EXPERIMENTS["table2"])
    assert {cell.cohort for cell in few.cells} == {20}
    assert len(few.cells) == 6
    assert few.rates() == [(0.1, 1.0), (0.03, 1.0)]


def test_choosing() -> None:
    assert [one.name for one in chosen_experiments(["figure1", "table2"])] == ["figure1", "table2"]
    assert [cell.label for cell in only(EXPERIMENTS["table2"], ["40 clients", "FedAvg"]).cells] == ["FedAvg"]
    with pytest.raises(FedamdError, match="there is no experiment 'table9'"):
        list(chosen_experiments(["table9"]))
    with pytest.raises(FedamdError, match="leaves nothing of table2"):
        only(EXPERIMENTS["table2"], ["FedProx"])
    with pytest.raises(FedamdError, match="rates: should be grid or table2"):
        Protocol(rates="mine")


def test_rates_of_table_2_need_table_2(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="run `reproduce table2` first"):
        reproduce(EXPERIMENTS["figure1"], tmp_path, Protocol(rates="table2"), silent)
