"""`fedamd run`: train, watch, resume."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedamd.cli.keys import setting
from fedamd.cli.names import DEVICES, ENGINES, ORACLES, one_of
from fedamd.cli.show import announce_theory, closing_table
from fedamd.errors import FedamdError
from fedamd.torchrun import is_writer

if TYPE_CHECKING:
    from fedamd.runs.api import Result
    from fedamd.runs.records import Record
    from fedamd.runs.run import Listener, Run

EXIT = {"finished": 0, "stopped": 0, "diverged": 1, "interrupted": 130}


def register(app: typer.Typer) -> None:
    app.command("run")(command)


def command(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; without one, FedAMD trains on embedded digits.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key, as in algorithm.eta_l=0.03.", autocompletion=setting
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: a new one under runs/).")] = None,
    resumed: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Continue the run in this folder.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds T.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for all randomness.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", autocompletion=one_of(DEVICES))] = None,
    engine: Annotated[
        str | None, typer.Option(help="See `fedamd list engines`.", autocompletion=one_of(ENGINES))
    ] = None,
    oracle: Annotated[
        str | None, typer.Option(help="See `fedamd list oracles`.", autocompletion=one_of(ORACLES))
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run code named in a run folder that somebody else made.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")] = False,
) -> None:
    """Train a model over a simulated federation."""
    from fedamd.runs.config import parse_setting

    words = {"rounds": rounds, "seed": seed, "device": device, "engine": engine, "oracle": oracle}
    changes = dict(map(parse_setting, settings or [])) | {
        key: value for key, value in words.items() if value is not None
    }
    result = _train(config, out, resumed, changes, as_json or not is_writer(), tensorboard, trust)
    if not is_writer():
        return
    if as_json:
        typer.echo(json.dumps(result.summary | {"folder": str(result.folder)}))
    else:
        closing_table(result)
    raise typer.Exit(EXIT[result.summary["status"]])


def _train(
    config: Path | None,
    out: Path | None,
    resumed: Path | None,
    changes: dict[str, Any],
    quiet: bool,
    tensorboard: bool,
    trust: bool,
) -> "Result":
    from fedamd.report.tensorboard import TensorBoardListener
    from fedamd.runs.api import resume, run
    from fedamd.runs.config import Config, load_config
    from fedamd.runs.folder import default_folder
    from fedamd.runs.progress import Progress

    if resumed and (config or out):
        raise FedamdError(
            "--resume takes its config from the run's folder: give neither a config file nor --out with it"
        )
    settled = None if resumed else load_config(config, changes, trust=trust)
    folder = resumed or out or default_folder(settled or Config())
    announce_theory([settled] if settled else [], quiet)
    with ExitStack() as listening:
        listeners: list[Listener] = [listening.enter_context(Progress(quiet))]
        if tensorboard and is_writer():
            listeners.append(listening.enter_context(TensorBoardListener(folder / "tensorboard")))

        def listen(which: "Run", record: "Record") -> None:
            for listener in listeners:
                listener(which, record)

        return (
            run(settled, out=folder, listen=listen)
            if settled
            else resume(folder, listen=listen, trust=trust, **changes)
        )
