"""`fedamd watch`: the report page, live while a run goes on."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("watch")(command)


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a run or of a comparison.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Show a run in the browser, live, on this machine only. Ctrl-C stops watching."""
    import webbrowser

    from fedamd.report.watch import address, watch_server

    with watch_server(run, port) as server:
        typer.echo(f"watching {run} at {address(server)} (Ctrl-C to end)")
        if browser:
            webbrowser.open(address(server))
        with suppress(KeyboardInterrupt):
            server.serve_forever()
