"""The command line as a whole: help, completion, that neither waits for PyTorch, several processes, and mistakes."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedamd import __version__
from fedamd.cli.main import PAUSE, TOGETHER, app, main
from support import torchrun


def commands() -> list[list[str]]:
    return [
        [],
        *([info.name or ""] for info in app.registered_commands),
        *([group.name or ""] for group in app.registered_groups),
        *(
            [group.name or "", info.name or info.callback.__name__]
            for group in app.registered_groups
            for info in group.typer_instance.registered_commands
        ),
    ]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_help(words):
    told = CliRunner().invoke(app, [*words, "--help"])
    assert told.exit_code == 0, told.output
    assert "Usage" in told.stdout
    assert len(told.stdout.splitlines()) > 5
    assert CliRunner().invoke(app, [*words, "-h"]).stdout == told.stdout


def parameters(command: Any) -> Iterator[Any]:
    """The arguments and options of a command and of those below it."""
    yield from command.params
    for below in getattr(command, "commands", {}).values():
        yield from parameters(below)


def test_every_argument_and_every_option_is_explained():
    found = list(parameters(typer.main.get_command(app)))
    assert len([one for one in found if one.param_type_name == "argument"]) > 8
    assert [one.name for one in found if not one.help] == []


def test_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{__version__}\n"


# --- what is imported for it ---

HEAVY = ("torch", "numpy", "matplotlib", "flwr", "sklearn")
SCRIPT = f"""
import json, sys
from typer.testing import CliRunner
from fedamd.cli.main import app

def heavy():
    return [name for name in {HEAVY} if name in sys.modules]

told = {{}}
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    told[" ".join(words)] = [result.exit_code, heavy()]
print(json.dumps(told))
"""


def imported(*calls: list[str]) -> dict[str, tuple[int, list[str]]]:
    """The exit code of each call, and which heavy packages had been imported after it, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(calls)], capture_output=True, text=True, check=True, timeout=100
    )
    return {call: tuple(told) for call, told in json.loads(done.stdout).items()}


def test_help_imports_nothing_heavy():
    told = imported(*([*words, "--help"] for words in commands()), ["list", "algorithms"])
    code, heavy = told.pop("list algorithms")
    assert code == 0
    assert "torch" in heavy  # so the others would have been seen to import it
    assert len(told) == len(commands()) > 15
    assert told == dict.fromkeys(told, (0, []))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("compare --algorithms fedamd,fedp", ["fedamd,fedprox", "fedamd,fedpage"]),
        ("list models resnet", ["resnet18-gn", "resnet18-gn-cifar"]),
        ("list metrics m", ["mse", "mae"]),
    ],
)
def test_completion_imports_nothing_heavy(words, offered):
    shown = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "import sys; sys.argv = ['fedamd']; import fedamd.cli.main as m; m.main()",
        ],
        env=os.environ
        | {
            "_FEDAMD_COMPLETE": "complete_bash",
            "COMP_WORDS": f"fedamd {words}",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert shown.stdout.split() == offered
    modules = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "fedamd.cli.main" in modules
    assert not modules & set(HEAVY)


# --- under torchrun ---

ALONE = [info.name for info in (*app.registered_commands, *app.registered_groups) if info.name not in TOGETHER]


def failing(words, monkeypatch, capsys) -> tuple[str, str]:
    """What a command that ends with code 2 prints."""
    monkeypatch.setattr(sys, "argv", ["fedamd", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return tuple(capsys.readouterr())


@pytest.mark.parametrize("name", ALONE)
def test_what_one_process_does_is_refused_to_several(name, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    told = failing([name, "anything"], monkeypatch, capsys)
    assert told == ("", f"error: fedamd {name} runs in one process: start it without torchrun\n")


def test_another_process_than_the_first_waits_before_it_tells_a_mistake(monkeypatch, capsys):
    """Both then ignore the SIGTERM with which torchrun ends a process once another has ended."""
    naps: list[float] = []
    ignored: list[tuple[object, ...]] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr(signal, "signal", lambda *what: ignored.append(what))
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, expected in (("0", []), ("1", [PAUSE])):
        monkeypatch.setenv("RANK", rank)
        _, errors = failing(["run", "nowhere.toml"], monkeypatch, capsys)
        assert errors == "error: there is no config file nowhere.toml\n"
        assert naps == expected
    assert ignored == [(signal.SIGTERM, signal.SIG_IGN)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nowhere.toml"], "there is no config file nowhere.toml"),
        (["sweep", "--grid", "seed=0,1"], "fedamd sweep runs in one process"),
    ],
)
def test_two_processes_tell_a_mistake_once(words, says):
    job = torchrun(2, "-m", "fedamd", *words)
    told, errors = job.communicate(timeout=100)
    assert job.returncode != 0
    assert told == ""
    assert errors.count("error: ") == 1
    assert f"error: {says}" in errors


# --- what no command foresaw ---


def test_a_mistake_of_the_system_is_a_sentence_that_names_the_file(monkeypatch, capsys, tmp_path):
    (tmp_path / "taken").write_text("mine")
    told = failing(["reproduce", "table2", "--out", str(tmp_path / "taken")], monkeypatch, capsys)
    assert told == ("", f"error: {tmp_path / 'taken'} is a file: choose another --out\n")

    def full(*_: object, **__: object) -> None:
        raise OSError("no space anywhere")

    monkeypatch.setattr("fedamd.runs.folder.Folder.create", full)
    assert failing(["run", "--json"], monkeypatch, capsys) == ("", "error: no space anywhere\n")


def test_a_reader_who_has_gone_is_told_nothing(monkeypatch):
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("fedamd.cli.main.app", gone)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert sys.stderr.closed
