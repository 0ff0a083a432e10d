"""Runs that are steered: samplers, schedules and simulated devices, on every engine, resumed, and in lockstep."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fedamd
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.errors import FedamdError
from support import PAIR, TRIPLES

CONFIG: dict[str, Any] = {
    "data": {"name": "quadratic", "samples": 4, "dimension": 3},
    "clients": 8,
    "cohort": 3,
    "rounds": 9,
    "checkpoint_every": 4,
    "algorithm": {"steps": 4, "small_batch": 2, "p": 0.4, "eta_l": 0.05},
}
STEERED: dict[str, dict[str, Any]] = {
    "weighted": {"sampler": {"name": "weighted"}},
    "cyclic": {"sampler": {"name": "cyclic", "groups": 3}},
    "markov": {"sampler": {"name": "markov", "leaves": 0.5, "comes": 0.4}},
    "schedules": {"schedules": {"eta_l": "exponential", "steps": {"name": "step", "every": 3, "drop": 0.5}}},
    "stragglers": {"devices": {"spread": 1.0, "samples_per_second": 100}, "deadline": 0.1},
}


@pytest.mark.parametrize("steered", STEERED)
@pytest.mark.parametrize("cache", ["server", "client"])
def test_every_engine_takes_the_same_path(steered: str, cache: str) -> None:
    changes = STEERED[steered] | {"algorithm.cache": cache, "dtype": "float64"}
    loop = fedamd.run(CONFIG, engine="loop", **changes)
    vector = fedamd.run(CONFIG, engine="vector", oracle="autograd", **changes)
    torch.testing.assert_close(loop.x, vector.x)
    assert not torch.equal(loop.x, fedamd.run(CONFIG, engine="loop", dtype="float64").x)


@pytest.mark.parametrize("steered", STEERED)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(steered: str, tmp_path: Path) -> None:
    whole = fedamd.run(CONFIG, **STEERED[steered])
    fedamd.run(CONFIG, out=tmp_path / "run", **(STEERED[steered] | {"rounds": 5}))
    resumed = fedamd.resume(tmp_path / "run", rounds=9)
    assert torch.equal(whole.x, resumed.x)
    assert whole.summary["gradient_samples"] == resumed.summary["gradient_samples"]


def test_a_sweep_in_lockstep_steers_every_run_by_itself(tmp_path: Path) -> None:
    grid = Grid({"schedules.eta_l": ["exponential", "constant"], "seed": [0, 1]})
    sweep(plan(CONFIG, grid, tmp_path))
    for folder in sorted((tmp_path / "runs").iterdir()):
        config = fedamd.load_config(folder / "config.toml")
        alone = fedamd.run(config, out=tmp_path / "alone" / folder.name)
        metrics = [path / "metrics.jsonl" for path in (folder, tmp_path / "alone" / folder.name)]
        assert len(metrics[0].read_text().splitlines()) == len(metrics[1].read_text().splitlines())
        model = [path / "model.safetensors" for path in (folder, tmp_path / "alone" / folder.name)]
        assert model[0].read_bytes() == model[1].read_bytes()
        assert alone.summary["status"] == "finished"


def test_a_schedule_scales_the_step() -> None:
    """∇F_0 = x − 1, ∇F_1 = 3x + 3: from x_0 = 0 one step of FedAvg with K = 1 goes to −η_l·η_s, here halved each round.

    x_1 = −0.1·1; ∇F(x_1) = 2·(−0.1) + 1 = 0.8; x_2 = −0.1 − 0.05·0.8 = −0.14.
    """
    end = fedamd.run(
        dataset=PAIR,
        model={"name": "quadratic"},
        algorithm={"name": "fedavg", "steps": 1, "small_batch": "full", "eta_l": 0.1},
        schedules={"eta_l": {"name": "exponential", "rate": 0.5}},
        cohort=2,
        rounds=2,
        dtype="float64",
    )
    torch.testing.assert_close(end.x, torch.tensor([-0.14], dtype=torch.float64))


def test_simulated_seconds_are_those_of_the_slowest() -> None:
    """Three samples each, K = 2 batches of 2: 4 gradient samples at 10 a second are 0.4 s a round.

    One float64 down at 50 Mbit/s and one up at 10 Mbit/s add 64/5e7 + 64/1e7 s.
    """
    end = fedamd.run(
        dataset=TRIPLES,
        model={"name": "quadratic"},
        algorithm={"name": "fedavg", "steps": 2, "small_batch": 2, "eta_l": 0.1},
        devices={"samples_per_second": 10},
        cohort=2,
        rounds=3,
        dtype="float64",
    )
    assert end.summary["simulated_seconds"] == pytest.approx(3 * (0.4 + 64 / 5e7 + 64 / 1e7))


def test_who_misses_the_deadline_never_replies_and_the_round_lasts_until_then(tmp_path: Path) -> None:
    """Client 0 computes 4 samples in 0.4 s, client 1 in 4 s; the deadline is 1 s."""
    path = tmp_path / "devices.csv"
    path.write_text("client,samples_per_second,mbit_up,mbit_down\n0,10,10,50\n1,1,10,50\n")
    end = fedamd.run(
        dataset=TRIPLES,
        model={"name": "quadratic"},
        algorithm={"name": "fedavg", "steps": 2, "small_batch": 2, "eta_l": 0.1},
        devices=str(path),
        deadline=1.0,
        cohort=2,
        rounds=3,
    )
    assert end.summary["missing"] == 3
    assert end.summary["gradient_samples"] == 3 * 4
    assert end.summary["simulated_seconds"] == pytest.approx(3.0)


def test_fedamds_cache_stays_the_mean_of_what_clients_hold_when_clients_come_and_go() -> None:
    """Whoever takes part, the bullseye is the mean over all M of the newest anchored gradients: both caches agree."""
    changes = STEERED["markov"] | {"dtype": "float64", "rounds": 15}
    server = fedamd.run(CONFIG, **changes)
    client = fedamd.run(CONFIG, **(changes | {"algorithm.cache": "client"}))
    torch.testing.assert_close(server.x, client.x)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": {"name": "cyclc"}}, r"sampler.name: there is no 'cyclc' \(did you mean cyclic\?\)"),
        ({"sampler": {"name": "cyclic", "groups": 0}}, "groups must be a whole number"),
        ({"sampler": {"name": "cyclic", "size": 3}}, "sampler.size: unknown key"),
        ({"schedules": {"eta": "cosine"}}, "schedules.eta: FedAMD has no such hyper-parameter"),
        ({"schedules": {"eta_l": "cosin"}}, "schedules.eta_l: there is no 'cosin'"),
        ({"deadline": 3.0}, "deadline is in simulated seconds, which need devices"),
        ({"devices": {"speed": 3}}, "devices.speed: unknown key"),
    ],
)
def test_mistakes_are_told_before_anything_runs(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=sentence):
        fedamd.run(CONFIG, out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_trace_with_unknown_clients_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("client,from,to\n0,0,9\n8,0,9\n")
    with pytest.raises(FedamdError, match=r"trace\.csv names client 8, but the clients are 0 … 7"):
        fedamd.run(CONFIG, out=tmp_path / "run", sampler={"name": "trace", "path": str(tmp_path / "trace.csv")})
    assert not (tmp_path / "run").exists()


def test_an_unknown_metric_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=r"metrics: there is no 'maee' \(did you mean mae\?\)"):
        fedamd.run(CONFIG, out=tmp_path / "run", metrics=["maee"])
    assert not (tmp_path / "run").exists()


def test_a_schedule_that_turns_negative_is_named_and_the_run_kept_at_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below 0 from round 6 on: the checkpoint after four rounds stays, and a mended schedule goes on from there."""
    module = tmp_path / "own_schedules.py"
    module.write_text("def falling(t):\n    return 1.0 - t / 5.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    changes = {"schedules": {"eta_l": "own_schedules:falling"}}
    with pytest.raises(
        FedamdError, match=r"schedules\.eta_l gave -0\.09.* for round 6: a factor is a finite number above 0"
    ):
        fedamd.run(CONFIG, out=tmp_path / "run", **changes)
    monkeypatch.setattr(sys.modules["own_schedules"], "falling", lambda t: max(1.0 - t / 5.5, 0.01))
    resumed = fedamd.resume(tmp_path / "run")
    whole = fedamd.run(CONFIG, **changes)
    assert [record.round for record in resumed.metrics] == list(range(-1, 9))
    assert torch.equal(resumed.x, whole.x)
    sys.modules.pop("own_schedules")
