"""`fedamd run`, `list` and `data` as a person or a script sees them."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from fedamd.algorithms import ALGORITHMS
from fedamd.cli.listing import KINDS, _settings
from fedamd.cli.main import app, main
from fedamd.data import SOURCES
from fedamd.errors import FedamdError
from fedamd.runs.sealed import read_json

SMALL = ["--set", "data.name=quadratic", "--set", "clients=5", "--set", "cohort=2"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fedamd(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_json_is_all_that_is_printed():
    told = fedamd("run", *SMALL, "--rounds", "3", "--json", "--out", "here")
    summary = json.loads(told.stdout)
    assert summary["status"] == "finished"
    assert summary["rounds"] == 3
    assert summary["folder"] == "here"
    assert summary | {"format": 2} == read_json(Path("here/summary.json")) | {"folder": "here"}
    assert told.stderr == ""


def test_plain_lines_where_there_is_no_terminal():
    told = fedamd("run", *SMALL, "--rounds", "3", "--seed", "4").stdout
    assert "\x1b" not in told
    assert "round    3/3" in told
    assert "finished after 3 rounds" in told
    (folder,) = Path("runs").iterdir()
    assert f"records in {folder}" in told
    assert "seed = 4" in (folder / "config.toml").read_text()


def test_a_folder_with_brackets_is_named_as_it_is():
    assert "records in odd[bold]name" in fedamd("run", *SMALL, "--rounds", "1", "--out", "odd[bold]name").stdout


def test_a_long_run_prints_few_lines():
    told = fedamd("run", *SMALL, "--rounds", "200").stdout
    assert 15 <= told.count("round ") <= 25


def test_settings_of_a_file_can_be_changed():
    Path("run.toml").write_text(
        'rounds = 50\nclients = 5\ncohort = 2\n[data]\nname = "quadratic"\n[algorithm]\ntau = 3\n'
    )
    told = fedamd("run", "run.toml", "--rounds", "2", "--set", "algorithm.eta_l=0.5", "--out", "here", "--json").stdout
    assert json.loads(told)["rounds"] == 2
    config = Path("here/config.toml").read_text()
    assert "eta_l = 0.5" in config
    assert "tau = 3" in config


def test_resume_goes_on_and_takes_no_other_config():
    fedamd("run", *SMALL, "--rounds", "2", "--out", "here")
    assert json.loads(fedamd("run", "--resume", "here", "--rounds", "4", "--json").stdout)["rounds"] == 4
    refused = fedamd("run", "--resume", "here", "--out", "there", code=1)
    assert "give neither a config file nor --out" in str(refused.exception)


def test_a_run_that_diverges_ends_with_code_1():
    assert "diverged" in fedamd("run", *SMALL, "--set", "algorithm.eta_l=1e30", "--rounds", "9", code=1).stdout


@pytest.mark.parametrize(
    "words",
    [["run", "a.toml"], ["compare", "a.toml", "b.toml"], ["sweep", "a.toml", "--grid", "seed=0,1"]],
    ids=" ".join,
)
def test_rates_by_theory_are_announced_before_their_constants_are_sought(words, monkeypatch):
    def stop(*_: object) -> None:
        raise FedamdError("sought")

    monkeypatch.setattr("fedamd.runs.theory_rates.exact_constants", stop)
    for name, p in (("a.toml", 0.5), ("b.toml", 0.9)):
        Path(name).write_text(f'data.name = "quadratic"\n[algorithm]\np = {p}\neta_l = "theory"\neta_s = "theory"\n')
    told = fedamd(*words, code=1)
    assert str(told.exception) == "sought"
    assert told.stdout.startswith("eta_l and eta_s by theory: finding L and L_σ of the problem first\n")
    assert "round  " not in told.stdout
    assert fedamd(*words, "--json", code=1).stdout == ""


# --- mistakes ---


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--set", "clientz=3"], "clientz: unknown key (did you mean clients?)"),
        (["run", "--set", "cohort=200"], "cohort (A = 200) must not exceed clients (M = 100)"),
        (["run", "--set", "rounds"], "expected key=value"),
        (["run", "--engine", "warp"], "engine"),
        (["run", "nowhere.toml"], "there is no config file nowhere.toml"),
        (["run", "--resume", "nowhere"], "nowhere holds no run"),
        (["run", "--set", "data.name=[b]x[/b]"], "there is no '[b]x[/b]'"),
        (["list", "algorithm"], "there is no 'algorithm' (did you mean algorithms?)"),
        (["list", "algorithms", "fedmad"], "there is no 'fedmad' (did you mean fedamd?)"),
        (["list", "models", "mpl"], "there is no 'mpl' (did you mean mlp?)"),
        (["data", "fetch", "nothing"], "nothing"),
    ],
)
def test_a_mistake_is_one_sentence_on_standard_error_and_code_2(words, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedamd", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert says in told.err
    assert told.err.count("\n") == 1
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "words", [["run", "--rounds", "many"], ["walk"], ["run", "--no-such-option"], ["bench", "--model", "vgg"]]
)
def test_words_that_are_no_command_end_with_code_2(words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


# --- lists ---


@pytest.mark.parametrize("kind", KINDS)
def test_lists(kind):
    entries = json.loads(fedamd("list", kind, "--json").stdout)
    assert entries
    assert all(entries.values())
    told = fedamd("list", kind).stdout
    assert all(name in told for name in entries)


def test_everything_that_can_be_named_says_what_its_settings_mean():
    for kind, listed in KINDS.items():
        for name, one in listed().items():
            unsaid = [setting for setting, told in _settings(one).items() if not told["meaning"]]
            assert unsaid == [], f"{kind} {name}"


def test_settings_are_listed_in_sixty_columns(monkeypatch):
    monkeypatch.setattr("fedamd.cli.listing.console", Console(width=60, file=(text := io.StringIO())))
    fedamd("list", "samplers", "markov")
    assert "probability that a client that is there" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= 60
    fedamd("list", "callbacks", "csv")
    assert "It has no settings." in " ".join(text.getvalue().split())


def test_settings_of_a_method():
    settings = json.loads(fedamd("list", "algorithms", "fedamd", "--json").stdout)
    assert settings["eta_l"]["default"] == "0.03"
    assert settings["large_batch"]["default"] == "'full'"
    assert json.loads(fedamd("list", "algorithms", "fedadam", "--json").stdout)["server"]["default"] == "'adam'"
    assert json.loads(fedamd("list", "algorithms", "--json").stdout).keys() == ALGORITHMS.keys()


def test_data_sets_and_where_they_are():
    found = json.loads(fedamd("data", "list", "--json").stdout)
    assert found.keys() == SOURCES.keys()
    assert found["digits"] == found["quadratic"] == "embedded"
    told = fedamd("data", "list").stdout
    assert all(name in told for name in SOURCES)
