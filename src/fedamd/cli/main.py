"""The command line `fedamd`. A command parses its words, calls the library and shows what comes back: no logic.

What a command calls it imports when it is called: help and completion do not wait for PyTorch.
"""

import io
import os
import signal
import sys
import time
import traceback
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from fedamd import __version__
from fedamd.cli import (
    bench,
    compare,
    data,
    doctor,
    federation,
    leaderboard,
    listing,
    new,
    plan,
    plot,
    report,
    reproduce,
    run,
    sweep,
    theory,
    tune,
    verify,
    watch,
)
from fedamd.errors import FedamdError
from fedamd.torchrun import ProcessLost, is_writer, processes

TOGETHER = ("run", "compare")  # what several processes can do as one
PAUSE = 10.0  # seconds in which the first of several processes tells a mistake that all have found

app = typer.Typer(
    name="fedamd",
    help="Federated learning with anchor sampling: train, compare, plan and reproduce.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run,
    listing,
    data,
    plot,
    sweep,
    plan,
    theory,
    compare,
    tune,
    leaderboard,
    reproduce,
    report,
    verify,
    watch,
    bench,
    federation,
    doctor,
    new,
):
    command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  its callback has dealt with it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="FEDAMD_DEBUG", help="Show where an error came from, call by call.")
    ] = False,
) -> None:
    """Federated learning with anchor sampling: train, compare, plan and reproduce."""
    if debug:
        os.environ["FEDAMD_DEBUG"] = "1"  # for `main`, and for processes that commands start
    if processes() > 1 and context.invoked_subcommand not in TOGETHER:
        raise FedamdError(f"fedamd {context.invoked_subcommand} runs in one process: start it without torchrun")


def main() -> None:
    """Run the command line; a user's mistake is a sentence on standard error and exit code 2."""
    warnings.showwarning = _note
    # PyTorch's threads would go on spinning after the server's steps, on the cores the clients' workers need
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files can be in any bytes
    try:
        _refuse_empty_words(sys.argv[1:])
        app()
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: there is nobody to tell
        sys.exit(1)
    except (FedamdError, OSError) as error:
        if processes() > 1:
            _await_turn_to_speak(error)
        if _debugging():
            traceback.print_exception(error)
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(_sentence(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _debugging() -> bool:
    return os.environ.get("FEDAMD_DEBUG", "").lower() in ("1", "true", "yes", "on")


def _refuse_empty_words(words: list[str]) -> None:
    """An empty path would mean the current folder; it is rather a shell's variable that was never set."""
    for before, word in zip(["fedamd", *words], words, strict=False):
        if not word or (word.startswith("--") and word.find("=") == len(word) - 1):
            raise FedamdError(f"nothing is given for {word.rstrip('=') or before}: is a variable of your shell empty?")


def _note(message: Warning | str, *where: Any, **more: Any) -> None:  # noqa: ARG001
    """What a user should know of, in one line; nothing in other processes than the one that speaks."""
    if is_writer():
        typer.echo(f"note: {message}", err=True)


def _await_turn_to_speak(error: FedamdError | OSError) -> None:
    """torchrun ends all processes as soon as one has ended, with SIGTERM: let the one that speaks speak to its end."""
    if not is_writer() and not isinstance(error, ProcessLost):
        time.sleep(PAUSE)  # a mistake of all is told by the writer; what is told after this is this process's own
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _sentence(error: FedamdError | OSError) -> str:
    """What went wrong; where the system says so and no command foresaw it (a full disk), at least the file is named."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
