"""What people see at the end: a closing table, and what is announced before the first round."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from fedamd.runs.api import Result
    from fedamd.runs.config import Config
    from fedamd.runs.summary import Summary

console = Console()
TARGET_HELP = "Report the cost of reaching this accuracy, or another metric, as in mse=0.1"


def announce_theory(configs: Sequence["Config"], quiet: bool = False) -> None:
    """Say why the first round takes a while where learning rates are left to theory."""
    rates = dict.fromkeys(rate for config in configs for rate in config.by_theory)
    if rates and not quiet:
        console.print(f"{' and '.join(rates)} by theory: finding L and L_σ of the problem first", highlight=False)


def closing_table(result: "Result") -> None:
    """What the run came to, and where it is."""
    summary = result.summary
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _closing_rows(summary):
        table.add_row(f"[bold]{name}[/]", value)
    console.print(table)
    if result.folder:
        console.print(f"records in [bold]{escape(str(result.folder))}[/]", highlight=False, soft_wrap=True)
    if summary["status"] == "interrupted":
        console.print(
            f"continue with: fedamd run --resume {escape(shlex.quote(str(result.folder)))}",
            highlight=False,
            soft_wrap=True,
        )


def _closing_rows(summary: "Summary") -> list[tuple[str, str]]:
    from fedamd.metrics import Measure
    from fedamd.report.units import duration
    from fedamd.runs.summary import read_target

    measure = Measure(**summary["measure"])
    why = f": {summary['stopped']}" if "stopped" in summary else ""
    rows = [("status", f"{summary['status']} after {summary['rounds']} rounds{why}")]
    for one in dict.fromkeys([measure, Measure()]):
        final, best = summary[f"final_{one.name}"], summary[f"best_{one.name}"]
        if final is not None:
            rows.append((one.label, f"{one.text(final, 6)} (best {one.text(best, 6)})"))
    if summary["final_test_loss"] is not None and measure.name != "test_loss":
        rows.append(("test loss", f"{summary['final_test_loss']:.6g}"))
    if target := read_target(summary):
        reached = summary["to_target"]
        rows.append((f"to {target.text}", f"{reached['rounds']} rounds" if reached else "not reached"))
    worst = summary.get("clients", {}).get(measure.name, {}).get("worst_decile")
    if worst is not None:
        rows.append(("worst tenth", f"{measure.text(worst)} on clients' own tests"))
    rows.append(("cost", cost(summary)))
    rows.append(("start-up", cost(summary["start_up"])))
    if summary["missing"] or summary["rejected"]:
        rows.append(("replies", f"{summary['missing']} missing, {summary['rejected']} rejected"))
    if summary.get("simulated_seconds") is not None:
        rows.append(("simulated", duration(summary["simulated_seconds"])))
    rows.append(("time", duration(summary["seconds"])))
    return rows


def cost(totals: "Summary") -> str:
    """Gradients, and what was sent."""
    from fedamd.report.units import data_size

    up, down = data_size(totals["bits_up"]), data_size(totals["bits_down"])
    return f"{totals['gradient_samples']:,} gradient samples, {up} up, {down} down"
