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


def announce_theory(configs: Sequence["Config"], quiet: bool = False) -> None:
    """Say why the first round is long in coming where learning rates are left to theory."""
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
            f"go on with: fedamd run --resume {escape(shlex.quote(str(result.folder)))}",
            highlight=False,
            soft_wrap=True,
        )


def _closing_rows(summary: "Summary") -> list[tuple[str, str]]:
    rows = [("status", f"{summary['status']} after {summary['rounds']} rounds")]
    if summary["final_accuracy"] is not None:
        rows.append(
            ("accuracy", f"{100 * summary['final_accuracy']:.2f}% (best {100 * summary['best_accuracy']:.2f}%)")
        )
    if summary["final_test_loss"] is not None:
        rows.append(("test loss", f"{summary['final_test_loss']:.6g}"))
    if summary["target_accuracy"] is not None:
        reached = summary["to_target"]
        rows.append(
            (f"to {100 * summary['target_accuracy']:g}%", f"{reached['rounds']} rounds" if reached else "not reached")
        )
    rows.append(("cost", cost(summary)))
    rows.append(("start-up", cost(summary["start_up"])))
    if summary["missing"] or summary["rejected"]:
        rows.append(("replies", f"{summary['missing']} missing, {summary['rejected']} rejected"))
    rows.append(("time", f"{summary['seconds']:.1f} s"))
    return rows


def cost(totals: "Summary") -> str:
    """Gradients and bits in the paper's units."""
    megabits = (totals["bits_up"] + totals["bits_down"]) / 32e6
    return f"{totals['gradient_samples'] / 1e5:.3g} ×10⁵ gradient samples, {megabits:.4g} ×32 Mbit"
