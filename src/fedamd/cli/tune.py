"""`fedamd tune`: the best hyper-parameters of a method for a budget."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedamd.cli.keys import setting
from fedamd.cli.show import console


def register(app: typer.Typer) -> None:
    app.command("tune")(command)


def command(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; without one, the defaults of `fedamd run`.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of settings to try.")] = 100,
    budget: Annotated[
        str | None, typer.Option(metavar="COST=AMOUNT", help="Budget of one trial: rounds, gradients, bits or seconds.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Trials that run in lockstep and are halved together.")] = 27,
    search: Annotated[
        list[str] | None,
        typer.Option("--search", metavar="KEY=log:LOW:HIGH", help="Search this key too; also linear and choice:A,B."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key for all trials.", autocompletion=setting),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The tuning's folder; an unfinished tuning in it is continued.")
    ] = None,
) -> None:
    """Search a method's hyper-parameters with Optuna, in lockstep, stopping losers early at equal cost."""
    from fedamd.campaigns.suggest import parse_range
    from fedamd.campaigns.tune import TuningBudget, plan, tune
    from fedamd.report.tuning import write_page
    from fedamd.runs.config import parse_setting

    folder = out or Path("tunings") / f"{datetime.now():%Y%m%d-%H%M%S}"
    planned = plan(
        config,
        folder,
        trials=trials,
        batch=batch,
        budget=TuningBudget.parse(budget) if budget else None,
        search=dict(map(parse_range, search or [])),
        changes={"checkpoint_every": 50} | dict(map(parse_setting, settings or [])),
    )
    result = tune(planned, say=lambda line: console.print(line, highlight=False))
    if best := result.best:
        point = ", ".join(f"{key} = {value}" for key, value in best.point.items())
        told = f"{result.measure.label} {result.measure.text(result.measure.score(best.score or 0.0))}"
        console.print(f"best: {escape(point)}, {told} (trial {best.number})", highlight=False)
    for path in (folder / "trials.csv", folder / "best.toml", write_page(result)):
        if path.exists():
            console.print(escape(str(path)), highlight=False, soft_wrap=True)
    if result.interrupted:
        typer.echo(f"interrupted: continue with the same command and --out {folder}", err=True)
        raise typer.Exit(130)
