"""`fedamd bench`: how fast rounds are on this machine, and workloads that others have published."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from fedamd.cli.fitting import Column, print_table
from fedamd.cli.show import console


class NetworkName(StrEnum):
    """What can be timed."""

    LENET5 = "lenet5"
    MLP = "mlp"


class What(StrEnum):
    """The benchmarks there are."""

    ROUNDS = "rounds"
    WORKLOADS = "workloads"


def register(app: typer.Typer) -> None:
    app.command("bench")(command)


def command(
    what: Annotated[
        What, typer.Argument(help="Rounds of the paper's workload, or workloads that others have published.")
    ] = What.ROUNDS,
    quick: Annotated[bool, typer.Option("--quick", help="rounds: five repetitions instead of nine.")] = False,
    model: Annotated[NetworkName, typer.Option(help="rounds: one of the paper's networks.")] = NetworkName.LENET5,
    workload: Annotated[list[str] | None, typer.Option(help="workloads: which of them; all unless told.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="workloads: so many rounds, and the rest reckoned.")] = None,
    device: Annotated[str, typer.Option(help="workloads: where they run.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time a round of the paper's workload on every CPU path against a plain PyTorch loop, or published workloads."""
    announce = (lambda _: None) if as_json else console.print
    if what is What.WORKLOADS:
        from fedamd.workloads import WORKLOADS, run_workload

        results = [run_workload(name, rounds, device, announce) for name in workload or WORKLOADS]
        if as_json:
            typer.echo(json.dumps(results))
        else:
            _show_workloads(results)
        return
    from fedamd.bench import bench

    result = bench(model, 5 if quick else 9, announce=announce)
    if as_json:
        typer.echo(json.dumps(result))
        return
    _show("milliseconds of", result["seconds"], result["ratios"])
    _show("a whole round of", result["rounds"], result["round_ratios"])


def _show_workloads(results: Sequence[Mapping[str, Any]]) -> None:
    columns = {
        "workload": [result["workload"] for result in results],
        "a round": [f"{result['each_round']:.3f} s" for result in results],
        "all": [_whole(result) for result in results],
        "quoted, of others' machines": [_quoted(result) for result in results],
        "memory": [_memory(result) for result in results],
        "first round": [f"{result['first_round']:.2f} s" for result in results],
        "rounds": [f"{result['rounds']} of {result['of']}" for result in results],
        "on": [result["data"] for result in results],
    }
    worded = ("workload", "quoted, of others' machines", "on")
    print_table(
        [
            Column(heading, cells, rank, words=heading in worded, breaks=heading in worded[1:])
            for rank, (heading, cells) in enumerate(columns.items())
        ],
        console,
    )
    if results:
        last = results[-1]
        versions = ", ".join(f"{name} {version}" for name, version in last["versions"].items())
        console.print(f"{last['machine']}, {last['cores']} threads; {versions}", highlight=False)


def _whole(result: Mapping[str, Any]) -> str:
    return f"{result['whole_workload']:.0f} s" + (" (reckoned)" if result["extrapolated"] else "")


def _quoted(result: Mapping[str, Any]) -> str:
    return "; ".join(f"{who}: {figure}" for who, figure in result["quoted"].items()) or "–"


def _memory(result: Mapping[str, Any]) -> str:
    """The most it had, where the system says."""
    kinds = {"": result["peak_cpu_gib"], "GPU ": result["peak_gpu_gib"]}
    return ", ".join(f"{kind}{gib:.1f} GiB" for kind, gib in kinds.items() if gib is not None) or "–"


def _show(title: str, seconds: Mapping[str, Mapping[str, float]], ratios: Mapping[str, float]) -> None:
    table = Table(title, *ratios, box=None, padding=(0, 2, 0, 0))
    for path, taken in seconds.items():
        table.add_row(path, *(f"{1e3 * taken[what]:.0f}" for what in ratios))
    table.add_row("[bold]plain loop / fastest[/]", *(f"[bold]{ratio:.1f}×[/]" for ratio in ratios.values()))
    console.print(table)
