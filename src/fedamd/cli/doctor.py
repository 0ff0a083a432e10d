"""`fedamd doctor`: what this machine has, what is slow or missing, and how to mend it."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedamd.cli.show import console


def register(app: typer.Typer) -> None:
    app.command("doctor")(command)


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for a bug report.")] = False) -> None:
    """Show versions, CPU, GPU, data sets, extras and disk, and how to fix what is slow or missing."""
    from fedamd.doctor import examine

    findings = examine().to_json()
    if as_json:
        typer.echo(json.dumps(findings, indent=2))
        return
    advice = findings.pop("advice")
    for subject, found in findings.items():
        table = Table(f"[bold]{subject}[/]", "", box=None, padding=(0, 2, 0, 0), show_edge=False)
        for name, value in found.items():
            table.add_row(f"  {name}", escape(_words(name, value)))
        console.print(table)
    for sentence in advice or ["nothing: all is well"]:
        console.print(f"[bold yellow]to mend:[/] {escape(sentence)}" if advice else f"[green]to mend {sentence}[/]")


def _words(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 1e9:.1f} GB"
    if isinstance(value, list):
        return ", ".join(value) or "–"
    return "–" if value is None else str(value)
