"""A run's folder: what is in it, and that damaged files are refused before anything is overwritten."""

import json
import shutil
import tomllib
from dataclasses import replace

import pytest
import torch

import fedamd
from fedamd import FedAMD
from fedamd.errors import FedamdError, FedamdWarning
from fedamd.runs import checkpoint
from fedamd.runs.folder import Folder, default_folder
from fedamd.runs.model_file import read_vector
from fedamd.runs.sealed import read_json, sealed_json, sealed_toml

CONFIG = {
    "data": {"name": "quadratic", "dimension": 4, "samples": 3},
    "clients": 5,
    "cohort": 2,
    "rounds": 6,
    "checkpoint_every": 2,
}


@pytest.fixture
def run(tmp_path):
    fedamd.run(CONFIG, out=tmp_path / "run")
    return tmp_path / "run"


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_a_run_leaves(run):
    assert {path.name for path in run.iterdir()} == {
        "config.toml",
        "environment.json",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "checkpoint.previous.safetensors",
        "model.safetensors",
        "summary.json",
    }
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["algorithm"]["eta_l"] == 0.03
    assert config["clients"] == 5
    rounds = [json.loads(line)["round"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rounds == [-1, 0, 1, 2, 3, 4, 5]
    environment = json.loads((run / "environment.json").read_text())
    assert environment["packages"]["torch"] == torch.__version__
    assert {"command", "commit", "python", "platform", "begun"} <= environment.keys()
    tensors, facts = checkpoint.load(run / "model.safetensors")
    assert tensors["x"].shape == (4,)
    assert facts == {"parameters": {"x": [4]}}


def test_the_config_of_a_run_repeats_it(run, tmp_path):
    again = fedamd.run(run / "config.toml", out=tmp_path / "again")
    assert torch.equal(again.x, read_vector(run / "model.safetensors"))


def test_the_command_of_a_killed_run_cuts_its_metrics(run):
    """Rounds after the checkpoint, and a last line cut short, are dropped and run again."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 6, "half')
    assert len(fedamd.resume(run).metrics) == 7
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 7


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-10]), "cannot be read"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (lambda path: path.write_bytes(b"\x00" * 500), "cannot be read"),
        (lambda path: shutil.copy(path.parent / "model.safetensors", path), "is not a checkpoint of the run"),
        (
            lambda path: checkpoint.save(path, {"state.x": torch.zeros(7)}, {"t": 1}),
            "is not a checkpoint of the run",
        ),
    ],
)
def test_a_damaged_checkpoint_is_not_used(run, damage, says, tmp_path):
    """The one before is; without it the run is refused, and nothing overwritten."""
    (alone := tmp_path / "alone").mkdir()
    for path in run.iterdir():
        if path.name != "checkpoint.previous.safetensors":
            shutil.copy(path, alone)
    damage(alone / "checkpoint.safetensors")
    before = contents(alone)
    with pytest.raises(FedamdError, match=f"checkpoint.safetensors.*{says}"):
        fedamd.resume(alone, rounds=8)
    assert contents(alone) == before

    whole = fedamd.run(CONFIG, rounds=8)
    damage(run / "checkpoint.safetensors")
    with pytest.warns(FedamdWarning, match=f"going on from the checkpoint before, t = 4: .*{says}"):
        result = fedamd.resume(run, rounds=8)
    assert torch.equal(result.x, whole.x)
    assert checkpoint.load(run / "checkpoint.safetensors")[1]["t"] == 8
    assert checkpoint.load(run / "checkpoint.previous.safetensors")[1]["t"] == 6


@pytest.mark.parametrize(
    ("line", "says"), [("{oops", "not valid JSON"), ("{}", "not as it was written"), ("3", "not the record")]
)
def test_damaged_metrics_are_refused_with_the_line(run, line, says):
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join([*lines[:2], f"{line}\n", *lines[3:]]))
    before = contents(run)
    with pytest.raises(FedamdError, match=rf"metrics\.jsonl, line 3: {says}"):
        fedamd.resume(run)
    assert contents(run) == before


@pytest.mark.parametrize(
    ("content", "says"), [("oops", "is not valid JSON"), ("[]", "is damaged: it should hold keys and values")]
)
def test_a_damaged_environment_is_refused(run, content, says):
    (run / "environment.json").write_text(content)
    before = contents(run)
    with pytest.raises(FedamdError, match=rf"environment\.json {says}"):
        fedamd.resume(run)
    assert contents(run) == before


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_a_run_cannot_be_resumed(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FedamdError, match=r"holds no run \(no config\.toml in it\)"):
        fedamd.resume(tmp_path / name)


def test_a_run_killed_before_its_first_checkpoint_begins_again(run):
    """Only the config and a few metrics are there."""
    whole = read_vector(run / "model.safetensors")
    for name in ("checkpoint.safetensors", "model.safetensors", "summary.json"):
        (run / name).unlink()
    assert torch.equal(fedamd.resume(run).x, whole)
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 7


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path, says in ((tmp_path / "file", "is a file: choose another"), (tmp_path / "file" / "run", "cannot create")):
        with pytest.raises(FedamdError, match=says):
            fedamd.run(CONFIG, out=path)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_folder_of_other_things_is_not_offered_for_resuming(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FedamdError, match=r"is not empty: choose another --out$"):
        fedamd.run(CONFIG, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_method_given_as_an_object_is_in_the_config(tmp_path):
    """It need not be given again, and another one is refused."""
    method = FedAMD(eta_l=0.2, tau=2, steps=1)
    whole = fedamd.run(CONFIG, algorithm=method, out=tmp_path / "whole", rounds=9)
    fedamd.run(CONFIG, algorithm=method, out=tmp_path / "run")
    with pytest.raises(FedamdError, match=r"was begun with another algorithm \(eta_l was 0\.2, is 0\.3\)"):
        fedamd.resume(tmp_path / "run", rounds=9, algorithm=FedAMD(eta_l=0.3, tau=2, steps=1))
    result = fedamd.resume(tmp_path / "run", rounds=9)
    assert torch.equal(result.x, whole.x)


def test_a_run_killed_while_its_folder_was_made_can_be_begun_again(run):
    """The environment comes first, and a file that was being written may lie about."""
    whole = read_vector(run / "model.safetensors")
    for path in run.iterdir():
        if path.name != "environment.json":
            path.unlink()
    (run / ".config.toml.12345.part").write_text("half")
    assert torch.equal(fedamd.run(CONFIG, out=run).x, whole)
    assert not list(run.glob("*.part"))


def test_a_run_does_not_go_on_without_knowing_what_it_was_begun_with(run):
    (run / "environment.json").unlink()
    with pytest.raises(FedamdError, match=r"environment\.json is missing: it says what the run was begun with"):
        fedamd.resume(run)


@pytest.mark.parametrize("lines", [0, 1, 4, 6])
def test_metrics_that_end_too_early_are_noticed(run, lines):
    """The checkpoints are of t = 6 and t = 4: they need lines up to rounds 5 and 3, seven and five of them."""
    whole = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = (run / "metrics.jsonl").read_text().splitlines(keepends=True)[:lines]
    (run / "metrics.jsonl").write_text("".join(kept))
    if lines < 5:
        before = contents(run)
        with pytest.raises(FedamdError, match=r"cannot go on: .*metrics\.jsonl should have rounds −1 … 5, each once"):
            fedamd.resume(run)
        assert contents(run) == before
    else:
        with pytest.warns(FedamdWarning, match="the checkpoint before, t = 4"):
            assert [record.loss for record in fedamd.resume(run).metrics] == whole


def test_metrics_of_another_run_are_noticed(run, tmp_path):
    """Each line is right, but they are not what this run wrote."""
    fedamd.run(CONFIG, out=tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / "metrics.jsonl", run)
    with pytest.raises(FedamdError, match=r"metrics\.jsonl is not what the run had written by then"):
        fedamd.resume(run)


def resealed(path, change) -> None:
    """A change by somebody who knows about the checksum."""
    path.write_text(sealed_toml(change(path.read_text().rpartition("# check")[0])))


def test_a_config_changed_by_hand_is_noticed(run):
    path = run / "config.toml"
    written = path.read_text()
    path.write_text(written.replace("seed = 0", "seed = 1"))
    with pytest.raises(FedamdError, match=r"config\.toml is not as it was written: undo the change"):
        fedamd.resume(run)
    path.write_text(written)
    resealed(path, lambda text: text.replace("seed = 0", "seed = 1"))
    with pytest.raises(FedamdError, match=r"config\.toml changed since it was written"):
        fedamd.resume(run)
    path.write_text(written)
    assert fedamd.resume(run, rounds=7).summary["rounds"] == 7


def test_other_data_of_the_same_name_are_noticed(tmp_path):
    data = fedamd.data.load("quadratic", clients=5, dimension=4, samples=3)
    fedamd.run(CONFIG, dataset=data, out=tmp_path / "run")
    other = replace(data, inputs=data.inputs + 1)
    with pytest.raises(FedamdError, match=r"was begun with another data \(fingerprint was '\w+', is '\w+'\)"):
        fedamd.resume(tmp_path / "run", dataset=other)
    fedamd.resume(tmp_path / "run", dataset=data)


@pytest.mark.parametrize(
    ("begun", "says"),
    [
        ({"packages": {"torch": "1.0"}}, r"PyTorch was 1\.0 and is "),
        ({"processor": "Babbage's"}, "the processor was Babbage's and is "),
        ({"native_level": "v9"}, "the level of the native library was v9 and is "),
        ({"packages": {"triton": "0.1"}}, r"Triton was 0\.1 and is "),
        ({"processor_level": "SSE9"}, "the processor's level was SSE9 and is "),
        ({"processor_threads": 99}, r"the number of threads was 99 and is \d+"),
        ({"device": "an abacus"}, "the device was an abacus and is "),
    ],
)
def test_another_environment_is_told(begun, says, run):
    told = read_json(run / "environment.json")
    (run / "environment.json").write_text(sealed_json(told | begun))
    with pytest.warns(FedamdWarning, match=f"{says}.*: the last bits may differ"):
        fedamd.resume(run)


def test_two_processes_do_not_work_in_one_folder(run):
    before = contents(run)
    with Folder.open(run).alone(), pytest.raises(FedamdError, match="another process is at work in"):
        fedamd.resume(run, rounds=8)
    assert contents(run) == before
    assert fedamd.resume(run, rounds=8).summary["rounds"] == 8  # the lock is gone with its holder


def test_default_folders_differ(tmp_path):
    config = fedamd.load_config(CONFIG)
    first = default_folder(config, tmp_path)
    first.mkdir()
    second = default_folder(config, tmp_path)
    assert first != second
    assert "fedamd-quadratic-seed0" in first.name


def test_metrics_of_a_folder_without_any(tmp_path):
    assert Folder(tmp_path).metrics() == []


@pytest.mark.parametrize("which", ["trace", "devices"])
def test_other_files_than_the_run_began_with_are_refused(which, tmp_path):
    """A trace of who is there, and speeds of devices, are no data, but the trajectory follows from them."""
    trace, devices = tmp_path / "trace.csv", tmp_path / "devices.csv"
    trace.write_text("client,from,to\n" + "".join(f"{client},0,9\n" for client in range(4)))
    devices.write_text("client,samples_per_second,mbit_up,mbit_down\n" + "".join(f"{m},100,1,8\n" for m in range(4)))
    problem = {"data": {"name": "quadratic", "samples": 2}, "clients": 4, "cohort": 2, "rounds": 3}
    steered = {"sampler": {"name": "trace", "path": str(trace)}, "devices": str(devices)}
    fedamd.run(problem | steered, out=tmp_path / "run")
    changed = trace if which == "trace" else devices
    changed.write_text(changed.read_text().replace("3,0,9", "3,0,2").replace("3,100,", "3,50,"))
    with pytest.raises(FedamdError, match="what a file says of the clients changed"):
        fedamd.resume(tmp_path / "run", rounds=5)


@pytest.mark.parametrize("told", [{"given": "x"}, {"modules": {}}, {"modules": [3]}, {"given": {"model": 1}}])
def test_an_environment_that_makes_no_sense_is_refused(told, tmp_path):
    fedamd.run(
        {"data": {"name": "quadratic", "samples": 2}, "clients": 4, "cohort": 2, "rounds": 1}, out=tmp_path / "run"
    )
    path = tmp_path / "run" / "environment.json"
    path.write_text(sealed_json(read_json(path) | told))
    with pytest.raises(FedamdError, match=r"environment\.json is damaged"):
        Folder(tmp_path / "run").environment()
