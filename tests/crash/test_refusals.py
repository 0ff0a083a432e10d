"""Input that no command can use: one sentence on standard error, exit code 2, and nothing written."""

import contextlib
import os
import subprocess
import sys

import pytest

import fedamd
from fedamd.cli.main import main
from fedamd.data.cifar import _pickled
from fedamd.data.idx import read_idx
from fedamd.errors import FedamdError
from fedamd.runs import checkpoint
from fedamd.runs.model_file import load_weights
from fedamd.runs.verify import verify
from support import PYTHONPATH

SMALL = {"data": {"name": "quadratic", "samples": 2, "dimension": 3}, "clients": 4, "cohort": 2, "rounds": 2}
PLAN = ["plan", "--clients", "100", "--cohort", "10", "--steps", "5", "--small-batch", "10", "--epsilon", "0.1"]
PLAN += ["--L", "1", "--L-sigma", "1", "--delta", "1"]


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What a command says that is refused, in an empty folder in which it leaves nothing."""
    monkeypatch.chdir(tmp_path)

    def refused(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["fedamd", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code, told.err.count("\n")) == (2, 1), told.err
        assert told.err.startswith("error: ")
        assert sorted(tmp_path.rglob("*")) == before
        return told.err

    return refused


@pytest.mark.parametrize(
    "settings",
    [
        ["model.hidden=1000000000000"],
        [f"model.hidden={'9' * 60}"],
        ["model.name=cnn", "model.hidden=1000000000000"],
        ["data.name=quadratic", "data.samples=100000000000"],
        ["data.name=quadratic", f"data.samples={'9' * 60}"],
        ["data.name=logistic", "data.dimension=10000000"],  # d × d matrices
        ["data.name=quadratic", "clients=100000000000"],
    ],
    ids=lambda settings: settings[-1][:40],
)
def test_what_cannot_fit_into_memory_is_told_with_its_size(settings, refused):
    assert " GB, and this machine has " in refused("run", *(word for one in settings for word in ("--set", one)))


@pytest.mark.parametrize("slot", ["model", "data", "partition", "sampler", "algorithm"])
@pytest.mark.parametrize("name", ["builtins:dict", "os:getcwd", "sys:path", "os:fork.x"])
def test_objects_that_are_no_such_thing(slot, name, refused):
    refused("run", "--set", f"{slot}.name={name}")


@pytest.mark.parametrize(
    "setting", ["oracle=builtins:dict", 'metrics=["builtins:dict"]', 'callbacks=["builtins:dict"]']
)
def test_objects_that_are_no_such_thing_beside_the_sections(setting, refused):
    refused("run", "--set", setting)


@pytest.mark.parametrize("value", ["1e308", "1e155", "inf", "nan", "-1"])
def test_plans_for_numbers_beyond_all_numbers(value, refused):
    refused(*PLAN, "--sigma", value)


def test_a_plan_for_more_clients_than_a_float_counts(refused):
    refused("plan", "--clients", "9" * 400, "--cohort", "9" * 399)


@pytest.mark.parametrize("words", [["--out", ""], ["--out="], ["--resume", ""], [""]], ids=str)
def test_a_path_of_nothing_is_not_the_current_folder(words, refused):
    assert "nothing is given for" in refused("run", *words)


@pytest.mark.parametrize(
    "words", [["--device", "tpu"], ["--rates", "many"], ["--only", "nobody"], ["--out", ""]], ids=str
)
def test_reproduce_refuses_before_it_makes_a_folder(words, refused):
    refused("reproduce", "table2", *(() if "--out" in words else ("--out", "here")), *words)


@pytest.mark.skipif(fedamd.data.where("fashion-mnist") is not None, reason="the data are here")
def test_reproduce_without_its_data_makes_no_folder(refused):
    assert "were not found" in refused("reproduce", "table2", "--out", "here")


@pytest.mark.parametrize("setting", ["rounds=" + "1" * 5000, "algorithm.eta_l=" + "[" * 5000, "a" + ".a" * 5000 + "=1"])
def test_settings_beyond_measure(setting, refused):
    refused("run", "--set", setting)


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "1" * 5000,
        "x = " + "[" * 100_000,
        "x = " + "{a = " * 50_000,
        "[" + "a." * 100_000 + "a]",
        "a." * 100_000 + "a = 1",
        "rounds = 3\n" * 5_000_000,  # 50 MB
    ],
    ids=lambda text: f"{text[:8]} {len(text)}",
)
def test_configs_beyond_measure(text, refused, tmp_path):
    (tmp_path / "huge.toml").write_text(text)
    assert len(refused("run", "huge.toml")) < 500


# --- names that are not UTF-8 ---


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 here")
def test_names_in_other_bytes(refused, tmp_path):
    odd = os.fsdecode(b"o\xffdd")
    (tmp_path / f"{odd}.csv").write_text("x,y\n" + "1,0\n2,1\n" * 20)
    refused("run", "--out", odd)
    refused("run", f"{odd}.toml")
    refused("run", "--set", "data.name=csv", "--set", "data.target=y", "--set", f"data.path={odd}.csv")
    refused("run", "--set", f'metrics=["{odd}"]')
    refused("report", odd)


def test_files_of_a_run_in_other_bytes(tmp_path):
    fedamd.run(SMALL, out=tmp_path / "run", client_store="disk", algorithm={"cache": "client"})
    for path in (tmp_path / "run").iterdir():
        good = path.read_bytes()
        path.write_bytes(b"\xff\xfe" + good[:100])
        with contextlib.suppress(FedamdError):
            assert not verify(tmp_path / "run").fine
        path.write_bytes(good)


# --- pipes, which would be waited for without end ---


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
class TestPipes:
    def test_as_configs_and_data(self, refused, tmp_path):
        for name in ("p.toml", "p.csv", "p.npz", "p.json", "p.safetensors"):
            os.mkfifo(tmp_path / name)
        small = [word for one in ("data.name=quadratic", "clients=4", "cohort=2") for word in ("--set", one)]
        for words in (
            ["run", "p.toml"],
            ["plan", "--estimate", "p.toml"],
            ["compare", "p.toml"],
            ["sweep", "p.toml", "--grid", "seed=0,1"],
            ["run", "--set", "data.name=csv", "--set", "data.path=p.csv", "--set", "data.target=y"],
            ["run", "--set", "data.name=npz", "--set", "data.path=p.npz"],
            ["run", "--set", "data.name=leaf", "--set", "data.path=p.json"],
            ["run", "--set", "partition.name=file", "--set", "partition.path=p.json"],
            ["run", *small, "--set", "devices=p.csv"],
            ["run", *small, "--set", "sampler.name=trace", "--set", "sampler.path=p.csv"],
            ["run", *small, "--set", "model.weights=p.safetensors"],
        ):
            refused(*words)

    def test_as_files_of_data_sets_and_weights(self, tmp_path):
        os.mkfifo(tmp_path / "p.safetensors")
        for read in (
            lambda path: read_idx(path, 1),
            _pickled("labels"),
            checkpoint.load,
            lambda path: load_weights(None, path),
        ):
            with pytest.raises(FedamdError, match=r"a pipe or a device|no ordinary file"):
                read(tmp_path / "p.safetensors")

    @pytest.mark.parametrize(
        "name",
        ["config.toml", "environment.json", "metrics.jsonl", "checkpoint.safetensors", "summary.json", "held.sqlite"],
    )
    def test_in_the_folder_of_a_run(self, name, tmp_path):
        fedamd.run(SMALL, out=tmp_path / "run", client_store="disk", algorithm={"cache": "client"})
        (tmp_path / "run" / name).unlink()
        os.mkfifo(tmp_path / "run" / name)
        with contextlib.suppress(FedamdError):
            assert not verify(tmp_path / "run").fine
        if name not in ("summary.json", "checkpoint.safetensors"):  # the one is written anew, the other has a former
            with pytest.raises(FedamdError):
                fedamd.resume(tmp_path / "run")


# --- a disk that takes nothing more ---


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no limit of the size of files that a test can set")
def test_a_disk_that_takes_nothing_more(tmp_path):
    """Whatever is written is refused by the system; full disks at every system call are in `crash faults`."""
    fedamd.run(SMALL, out=tmp_path / "run")
    small = [word for one in ("data.name=quadratic", "clients=4", "cohort=2") for word in ("--set", one)]
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); import fedamd.cli.main as m; m.main()"
    for words in (
        ["report", "run"],
        ["plot", "run"],
        ["run", *small, "--out", "other"],
        ["run", *small, "--set", "client_store=disk", "--out", "another"],
        ["compare", "--algorithms", "fedamd,fedavg", *small, "--out", "both"],
        ["run", "--resume", "run", "--rounds", "5"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": PYTHONPATH, "MPLCONFIGDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, (words, done)
        assert "error: " in done.stderr
        assert "Traceback" not in done.stderr
