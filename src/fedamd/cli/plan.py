"""`fedamd plan`: what to set and what it would cost, before a single round is run."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedamd.cli.names import COSTS, one_of
from fedamd.errors import FedamdError

if TYPE_CHECKING:
    from fedamd.theory import Estimates, Plan, PlanEntry, Problem, Rates, Speeds
    from fedamd.theory.anchored import AnchoredAdvice
    from fedamd.theory.estimate import Progress

NOTE = (
    "Rounds are Table 1's O() with hidden constants set to 1: they rank methods, they do not predict. "
    '"proved" is what the appendix guarantees with all its constants.'
)

SLIPS = "its proof gives 12σ²/(Mb) for the printed 3σ²/(Mb), and needs 2√2·M/(Ap) for 2M/(Ap) in eta_s"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("plan")(plan_command)


def plan_command(
    clients: Annotated[int | None, typer.Option(help="M, clients in the federation")] = None,
    cohort: Annotated[int | None, typer.Option(help="A, clients in a round")] = None,
    steps: Annotated[int | None, typer.Option(help="K, local steps of a miner")] = None,
    small_batch: Annotated[int | None, typer.Option(help="b', samples of a local step")] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε: reach ‖∇F‖² ≤ ε, or F − F* ≤ ε with --mu")] = None,
    smoothness: Annotated[float | None, typer.Option("--L", help="L, smoothness of every client's objective")] = None,
    average_smoothness: Annotated[float | None, typer.Option("--L-sigma", help="L_σ, average smoothness")] = None,
    sigma: Annotated[float | None, typer.Option(help="σ, gradient noise of one sample")] = None,
    delta: Annotated[float | None, typer.Option(help="F(x_0) − F*")] = None,
    mu: Annotated[float | None, typer.Option(help="μ of the PL condition; without it, non-convex")] = None,
    large_batch: Annotated[int | None, typer.Option(help="b, samples of an anchor; default: what theory needs")] = None,
    samples: Annotated[int | None, typer.Option(help="n, samples a client owns; default: unlimited")] = None,
    parameters: Annotated[int | None, typer.Option(help="d, parameters of the model; for bits and seconds")] = None,
    p: Annotated[float | None, typer.Option("--p", help="constant anchor probability; default: p*/c")] = None,
    c: Annotated[float, typer.Option("--c", help="divides p*: less computation, older cache")] = 1.0,
    tau: Annotated[int, typer.Option(help="τ, period of the sequential schedule")] = 2,
    cost: Annotated[
        str,
        typer.Option(help="what you pay for: rounds, gradients, bits or seconds", autocompletion=one_of(COSTS)),
    ] = "rounds",
    bandwidth: Annotated[float | None, typer.Option(help="bits per second of one client")] = None,
    compute: Annotated[float | None, typer.Option(help="gradient samples per second of one client")] = None,
    estimate: Annotated[
        Path | None, typer.Option(help="take sizes from this run config and estimate the constants at its x_0")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="gradient samples the estimates may use")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    plot: Annotated[Path | None, typer.Option(help="draw cost against p into this file")] = None,
) -> None:
    """Optimal probability, learning rates, batch, rounds and costs of FedAMD and its rivals, by the paper's theory.

    Without --estimate, every flag from --clients to --delta is needed; with it, only --epsilon is.

    With --clients and --cohort alone it says what can be said from these two.
    """
    from fedamd.runs.config import load_config
    from fedamd.runs.planning import anchored_advice, complete, estimated_problem, missing
    from fedamd.theory import Problem, outline, plan, plot_cost

    flags = {
        "M": clients,
        "A": cohort,
        "K": steps,
        "b_small": small_batch,
        "L": smoothness,
        "L_sigma": average_smoothness,
        "mu": mu,
        "p": p,
        "c": c,
        "tau": tau,
        "sigma": sigma,
        "delta": delta,
        "epsilon": epsilon,
        "n": samples,
        "b": large_batch,
        "d": parameters,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    found: Estimates | None = None
    advice: tuple[Rates, AnchoredAdvice] | None = None
    if estimate is None:
        lacking = missing(given)
        if lacking and clients is not None and cohort is not None and plot is None:
            show_outline(outline(given), lacking, as_json)
            return
        problem = Problem(**complete(given))
    else:
        with _estimating(quiet=as_json) as progress:
            config = load_config(estimate)
            problem, found = estimated_problem(config, given, budget, progress)
            advice = anchored_advice(config, problem, found)
    speeds = _speeds(bandwidth, compute)
    result = plan(problem, cost, speeds)
    picture = plot and plot_cost(problem, plot, cost, speeds)
    if as_json:
        content = result.to_dict() | {"plot": picture and str(picture), "estimates": found and asdict(found)}
        content |= {"anchored": asdict(advice[1])} if advice else {}
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
        return
    console = Console()
    if found:
        show_estimates(found, problem, console)
    show(result, console)
    if advice:
        show_advice(*advice, console)
    if picture:
        typer.echo(f"cost against p: {picture}")


def show_outline(found: dict[str, dict[str, float]], lacking: list[str], as_json: bool) -> None:
    """Print what is settled without the problem's constants, and what the rest needs."""
    if as_json:
        typer.echo(json.dumps({"outline": found, "missing": lacking}, indent=2))
        return
    console = Console()
    for schedule, numbers in found.items():
        told = ", ".join(f"{name} = {value:.4g}" for name, value in numbers.items())
        console.print(f"FedAMD ({schedule}): {told}", highlight=False, soft_wrap=True)
    console.print(
        "eta_s goes with eta_l = 1/(2√6·K·L), the largest that the theorems admit; a vector is a model, sent or got. "
        f"Rounds, costs and eta_l itself need {', '.join(lacking)}; --estimate CONFIG finds all but --epsilon.",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def _estimating(quiet: bool) -> Iterator["Progress"]:
    """A bar that says which constant is being estimated."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("estimating {task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda name, fraction: bar.update(task, description=name, completed=fraction)


def show_estimates(found: "Estimates", problem: "Problem", console: Console) -> None:
    """Print the estimated constants with their 95 % intervals, and what the plan takes for granted."""
    table = Table(title="Estimates at x_0", caption="A flag given for a constant wins over its estimate.")
    table.add_column("constant")
    for heading in ("value", "95 % interval", "samples"):
        table.add_column(heading, justify="right")
    for name, one in vars(found).items():
        if one is not None:
            table.add_row(name, f"{one.value:.4g}", f"{one.low:.4g} … {one.high:.4g}", str(one.samples_used))
    console.print(table)
    kind = "non-convex, ε on ‖∇F‖²" if problem.mu is None else f"PL with μ = {problem.mu:.4g}, ε on F − F*"
    console.print(
        f"planned for M = {problem.M}, A = {problem.A}, K = {problem.K}, b' = {problem.b_small}, n = {problem.n}, "
        f"d = {problem.d}; {kind}",
        highlight=False,
        soft_wrap=True,
    )


def show_advice(rates: "Rates", advice: "AnchoredAdvice", console: Console) -> None:
    """Print what anchored momentum should be set to."""
    anchors = "" if advice.p is None else f", p = {advice.p:.2g}"
    console.print(
        f"anchored momentum, at eta_l = {rates.eta_l:g} and eta_s = {rates.eta_s:g}: a = {advice.a:.2g}, "
        f's = {advice.s:.2g}, refresh = "{advice.refresh}"{anchors} (a reckoning, not a theorem)',
        highlight=False,
        soft_wrap=True,
    )


def show(result: "Plan", console: Console) -> None:
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


def _costs(entry: "PlanEntry") -> list[str]:
    gigabits = None if entry.bits is None else entry.bits / 1e9
    return [_number(value) for value in (entry.gradients, gigabits, entry.seconds, entry.start_up_gradients)]


def _remarks(entry: "PlanEntry") -> list[str]:
    remarks = [f"no number, {violation}" for violation in entry.violations]
    if entry.settings:
        remarks.append(", ".join(f"{name} = {value:.4g}" for name, value in entry.settings.items()))
    if entry.proved:
        remarks.append(f"proved, {entry.proved.rounds} rounds with b = {entry.proved.b}")
    if entry.printed:
        remarks.append(f"as printed in the paper, {entry.printed.rounds} rounds with b = {entry.printed.b} ({SLIPS})")
    return remarks


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _speeds(bandwidth: float | None, compute: float | None) -> "Speeds | None":
    from fedamd.theory import Speeds

    if bandwidth is None and compute is None:
        return None
    if bandwidth is None or compute is None:
        raise FedamdError("seconds need both --bandwidth (bits/s) and --compute (samples/s) of a client")
    return Speeds(bandwidth, compute)
