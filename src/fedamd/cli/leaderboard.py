"""`fedamd leaderboard`: every method, tuned with the same budget, ranked at equal costs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedamd.cli.names import DEVICES, one_of
from fedamd.cli.show import console

BOARD, RESULTS, CHOOSING = Path("leaderboards"), Path("results") / "leaderboard", Path("docs") / "choosing.md"


def register(app: typer.Typer) -> None:
    app.command("leaderboard")(command)


def command(
    board: Annotated[Path, typer.Argument(help="The folder of methods.toml and a file for each setting.")] = BOARD,
    out: Annotated[Path, typer.Option(help="Where finished runs are kept, and tables and figures written.")] = RESULTS,
    only: Annotated[list[str] | None, typer.Option(help="Only this setting; repeatable. Default: all.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only this entrant; repeatable. Default: all.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=one_of(DEVICES))] = "cpu",
    together: Annotated[int, typer.Option(min=1, help="Entrants that run in lockstep.")] = 8,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many minutes; 0 only publishes.")
    ] = None,
    choosing: Annotated[Path | None, typer.Option(help=f"Write the verdicts as Markdown, as in {CHOOSING}.")] = None,
) -> None:
    """Tune every method with the same budget, run it on fresh seeds, and rank all of them at equal costs.

    Finished runs are never repeated: a new line in methods.toml adds an entrant and runs nothing else.
    """
    from fedamd.files import write_text
    from fedamd.studies.leaderboard.board import read_board
    from fedamd.studies.leaderboard.publish import boards, choosing_page, publish
    from fedamd.studies.leaderboard.run import chosen, run_board
    from fedamd.studies.leaderboard.store import LeaderboardStore

    settings, entrants = read_board(board)
    store = LeaderboardStore(out)
    wanted = chosen(settings, entrants, only or [], methods or [])
    seconds = None if minutes is None else 60 * minutes
    complete = run_board(*wanted, store, device=device, together=together, seconds=seconds, say=console.print)
    told = boards(settings, entrants, store)
    for path in publish(told, out):
        console.print(escape(str(path)), highlight=False, soft_wrap=True)
    if choosing:
        write_text(choosing, choosing_page(told))
    if not complete and minutes != 0:
        typer.echo("not complete: the same command continues it", err=True)
        raise typer.Exit(3)
