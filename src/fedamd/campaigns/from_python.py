"""Comparisons and sweeps from Python, with objects or names: `fedamd.compare(…)`, `fedamd.sweep(…)`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from torch import nn

from fedamd.algorithms import COMPARED_BY_DEFAULT, Algorithm
from fedamd.campaigns import compare as comparing
from fedamd.campaigns import sweep as sweeping
from fedamd.campaigns.compare import Comparison
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import Sweep
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.runs.api import sort_parts
from fedamd.runs.config import Config, load_config
from fedamd.runs.given import given_sections
from fedamd.runs.progress import OverallProgress, Progress

Source = Path | str | Mapping[str, Any] | None


def compare(
    algorithms: Sequence[Algorithm | Mapping[str, Any] | str] = COMPARED_BY_DEFAULT,
    config: Source = None,
    *,
    out: Path | str | None = None,
    dataset: Dataset | Mapping[str, Any] | str | None = None,
    model: nn.Module | Mapping[str, Any] | str | None = None,
    target: float | Mapping[str, float] | None = None,
    progress: bool = False,
    **changes: Any,
) -> Comparison:
    """Methods on the same data, clients, cohorts and initial model: a row for each, and a folder of its run in `out`.

    >>> fedamd.compare(["fedamd", fedamd.FedAvg(eta_l=0.1)], rounds=50).rows
    """
    objects, named = sort_parts(dataset, model)
    base = load_config(config, changes | named | given_sections(**objects))
    entries = [_entry(base, method) for method in algorithms]
    with Progress(not progress, among=[entry for entry, _ in entries]) as shown:
        return comparing.compare(
            [entry for entry, _ in entries],
            Path(out) if out else comparing.default_folder(),
            target,
            shown,
            objects=[objects | own for _, own in entries],
        )


def sweep(
    grid: Mapping[str, Sequence[Any]],
    config: Source = None,
    *,
    out: Path | str | None = None,
    dataset: Dataset | Mapping[str, Any] | str | None = None,
    model: nn.Module | Mapping[str, Any] | str | None = None,
    algorithm: Algorithm | Mapping[str, Any] | str | None = None,
    progress: bool = False,
    **changes: Any,
) -> Sweep:
    """A run for every point of the grid, in lockstep where possible, and the best of them; continues what `out` has.

    >>> fedamd.sweep({"algorithm.eta_l": [0.1, 0.03], "seed": [0, 1, 2]}, rounds=50).best.point
    """
    objects, named = sort_parts(dataset, model, algorithm)
    told = given_sections(**objects)
    if "given" in told.get("algorithm", {}):
        raise FedamdError(
            f"a sweep makes its methods by name, and {told['algorithm']['name']} has none: put the class into a module "
            'of its own and name it, as in algorithm={"name": "mymodule:MyMethod"}'
        )
    objects.pop("algorithm", None)
    folder = Path(out) if out else Path("sweeps") / f"{datetime.now():%Y%m%d-%H%M%S}"
    base = load_config(config, {"checkpoint_every": 50} | changes | named | told)
    planned = sweeping.plan(base.model_dump(mode="json", exclude_unset=True), Grid(_lists(grid)), folder)
    with OverallProgress([one.rounds for one, _ in planned.waiting()], quiet=not progress) as shown:
        return sweeping.sweep(planned, shown, objects)


def _entry(base: Config, method: Algorithm | Mapping[str, Any] | str) -> tuple[Config, dict[str, Any]]:
    """The config of one method, and the object where it cannot be named."""
    objects, named = sort_parts(algorithm=method)
    section = (named | given_sections(**objects))["algorithm"]
    if isinstance(method, str):
        return comparing.with_method(base, method, {}), {}
    return base.told({"algorithm": section}), objects


def _lists(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {key: list(values) for key, values in grid.items()}
