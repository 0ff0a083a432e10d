"""`fedamd plan`: what to set and what it would cost, before a single round is run."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedamd.errors import FedamdError
from fedamd.theory import Entry, Plan, Problem, Speeds, plan, plot_cost

NOTE = (
    "Rounds are Table 1's O() with hidden constants set to 1: they rank methods, they do not predict. "
    '"proved" is what the appendix guarantees with all its constants.'
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("plan")(plan_command)


def plan_command(
    clients: Annotated[int, typer.Option(help="M, clients in the federation")],
    cohort: Annotated[int, typer.Option(help="A, clients in a round")],
    steps: Annotated[int, typer.Option(help="K, local steps of a miner")],
    small_batch: Annotated[int, typer.Option(help="b', samples of a local step")],
    epsilon: Annotated[float, typer.Option(help="ε: reach ‖∇F‖² ≤ ε, or F − F* ≤ ε with --mu")],
    smoothness: Annotated[float, typer.Option("--L", help="L, smoothness of every client's objective")],
    average_smoothness: Annotated[float, typer.Option("--L-sigma", help="L_σ, average smoothness")],
    sigma: Annotated[float, typer.Option(help="σ, gradient noise of one sample")],
    delta: Annotated[float, typer.Option(help="F(x_0) − F*")],
    mu: Annotated[float | None, typer.Option(help="μ of the PL condition; without it, non-convex")] = None,
    large_batch: Annotated[int | None, typer.Option(help="b, samples of an anchor; default: what theory needs")] = None,
    samples: Annotated[int | None, typer.Option(help="n, samples a client owns; default: no end of them")] = None,
    parameters: Annotated[int | None, typer.Option(help="d, parameters of the model; for bits and seconds")] = None,
    p: Annotated[float | None, typer.Option("--p", help="constant anchor probability; default: p*/c")] = None,
    c: Annotated[float, typer.Option("--c", help="divides p*: less computation, older cache")] = 1.0,
    tau: Annotated[int, typer.Option(help="τ, period of the sequential schedule")] = 2,
    cost: Annotated[str, typer.Option(help="what you pay for: rounds, gradients, bits or seconds")] = "rounds",
    bandwidth: Annotated[float | None, typer.Option(help="bits per second of one client")] = None,
    compute: Annotated[float | None, typer.Option(help="gradient samples per second of one client")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    plot: Annotated[Path | None, typer.Option(help="draw cost against p into this file")] = None,
) -> None:
    """Optimal probability, learning rates, batch, rounds and costs of FedAMD and its rivals, by the paper's theory."""
    problem = Problem(
        M=clients,
        A=cohort,
        K=steps,
        b_small=small_batch,
        L=smoothness,
        L_sigma=average_smoothness,
        mu=mu,
        p=p,
        c=c,
        tau=tau,
        sigma=sigma,
        delta=delta,
        epsilon=epsilon,
        n=samples,
        b=large_batch,
        d=parameters,
    )
    speeds = _speeds(bandwidth, compute)
    result = plan(problem, cost, speeds)
    picture = plot and plot_cost(problem, plot, cost, speeds)
    if as_json:
        typer.echo(json.dumps(result.to_dict() | {"plot": picture and str(picture)}, indent=2, allow_nan=False))
        return
    show(result, Console())
    if picture:
        typer.echo(f"cost against p: {picture}")


def show(result: Plan, console: Console) -> None:
    """Print a plan as a table; below it what to set, and why some methods have no numbers."""
    table = Table(title=f"Cheapest first by {result.cost}", caption=NOTE)
    table.add_column("method")
    for heading in ("rounds", "gradients", "Gbit", "seconds", "start-up\ngradients"):
        table.add_column(heading, justify="right")
    for entry in result.entries:
        if not entry.violations:
            table.add_row(entry.name, str(entry.rounds), *_costs(entry))
    console.print(table)
    for entry in result.entries:
        for line in _remarks(entry):
            console.print(f"{entry.name}: {line}", highlight=False, soft_wrap=True)


def _costs(entry: Entry) -> list[str]:
    gigabits = None if entry.bits is None else entry.bits / 1e9
    return [_number(value) for value in (entry.gradients, gigabits, entry.seconds, entry.start_up_gradients)]


def _remarks(entry: Entry) -> list[str]:
    remarks = [f"no number, {violation}" for violation in entry.violations]
    if entry.settings:
        remarks.append(", ".join(f"{name} = {value:.4g}" for name, value in entry.settings.items()))
    if entry.proved:
        remarks.append(f"proved, {entry.proved.rounds} rounds with b = {entry.proved.b}")
    return remarks


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _speeds(bandwidth: float | None, compute: float | None) -> Speeds | None:
    if bandwidth is None and compute is None:
        return None
    if bandwidth is None or compute is None:
        raise FedamdError("seconds need both --bandwidth (bits/s) and --compute (samples/s) of a client")
    return Speeds(bandwidth, compute)
