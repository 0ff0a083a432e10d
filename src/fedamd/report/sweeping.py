"""The page of a sweep: which setting was best, a heat map, parallel coordinates, and how the best of them went."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedamd.campaigns.sweep import GRID
from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target
from fedamd.report.clients import client_sections
from fedamd.report.comparison import target_columns
from fedamd.report.content import curve_section, page_subtitle, summary_facts
from fedamd.report.curves import Curve, by_settings, draw_curves, groups
from fedamd.report.page import Facts, PageSection, Table, TableCell, Text, build_page, cell
from fedamd.report.space import Place, heat_map, parallel, setting_cell, short, word
from fedamd.report.stored import StoredRun
from fedamd.runs.folder import CONFIG
from fedamd.runs.summary import target_costs, to_target

RESULT = "sweep.json"
_DRAWN = 8  # the curves of so many settings can be told apart


def is_sweep(folder: Path) -> bool:
    """Whether a sweep that has ended, or was interrupted in order, is in this folder."""
    return (folder / GRID).is_file() and (folder / RESULT).is_file()


def sweep_page(folder: Path, runs: Sequence[StoredRun], target: Target | None = None) -> str:
    """The page as HTML; the target is the runs' own unless told."""
    axes, content, measure = _read(folder)
    places = [_place(row, measure) for row in content["points"]]
    ranked = sorted(
        (place for place in places if place.value is not None), key=lambda place: -measure.score(place.value or 0.0)
    )
    target = target or next((run.target for run in runs if run.target), None)
    sections: list[PageSection] = [
        _facts(runs, ranked, measure),
        _repeat(folder, runs[0]),
        heat_map(places, axes, measure),
    ]
    keys = [key for key in axes if len(axes[key]) > 1]
    if len(places) > 1 and keys:
        sections.append(parallel(places, keys, measure))
    by_setting = _by_setting(runs, list(axes))
    best = _best_first(by_setting, ranked, list(axes)) or _some(runs)
    sections += [
        _table(places, ranked, list(axes), measure, by_setting, target),
        curve_section(_named(best), target),
        *client_sections(best[:1]),
    ]
    title = f"Sweep over {', '.join(short(key) for key in axes)}" if axes else "Sweep over seeds"
    return build_page(title, sections, subtitle=page_subtitle(runs), status=f"{len(places)} settings")


def _read(folder: Path) -> tuple[dict[str, list[Any]], dict[str, Any], Measure]:
    """The axes without the seed, what the sweep came to, and what it is judged by."""
    try:
        grid = json.loads((folder / GRID).read_text(encoding="utf-8"))["grid"]
        content = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        axes = {key: values for key, values in grid.items() if key != "seed"}
        rows = content["points"]
        classified = any("final_accuracy" in row for row in rows)
        usual = {"name": "accuracy" if classified else "test_loss", "higher_is_better": classified}
        return axes, content, Measure(**content.get("measure", usual))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedamdError(f"cannot read the sweep in {folder}: {error!r}") from None


def _place(row: dict[str, Any], measure: Measure) -> Place:
    final = f"final_{measure.name}"
    told = {"status", "seeds", "spread", final}
    point = {key: value for key, value in row.items() if key not in told and not key.endswith("_to_target")}
    return Place(point, row.get(final), row["status"])


def _facts(runs: Sequence[StoredRun], ranked: Sequence[Place], measure: Measure) -> Facts:
    """The best setting before everything else."""
    best = []
    if ranked:
        setting = ", ".join(f"{short(key)} = {word(value)}" for key, value in ranked[0].point.items())
        best = [("best setting", setting), (f"its final {measure.label}", measure.text(ranked[0].value))]
    general = [fact for fact in summary_facts(runs).facts if fact[0] not in ("reached by", f"best {measure.label}")]
    return Facts(title="", facts=[(name, value) for name, value in [*best, *general] if value])


def _table(
    places: Sequence[Place],
    ranked: Sequence[Place],
    keys: Sequence[str],
    measure: Measure,
    by_setting: Mapping[str, Sequence[StoredRun]],
    target: Target | None,
) -> Table:
    """The settings, the best first: what came of each, and what reaching the target cost."""
    order = [*ranked, *(place for place in places if place.value is None)]
    costs = _target_cells([by_setting.get(_key(place, keys), []) for place in order], target)
    rows = [
        [
            cell(place.value, measure.text(place.value), "best" if place in ranked[:1] else ""),
            *(setting_cell(place.point[key]) for key in keys),
            *(column[index] for column in costs.values()),
            cell(place.status, tone="bad" if "diverged" in place.status else ""),
        ]
        for index, place in enumerate(order)
    ]
    return Table(title="Settings", columns=[f"final {measure.label}", *map(short, keys), *costs, "status"], rows=rows)


def _target_cells(settings: Sequence[Sequence[StoredRun]], target: Target | None) -> dict[str, list[TableCell]]:
    """A column for every cost that somebody has."""
    if target is None:
        return {}
    unknown = [target_costs(None)]  # of a setting that has not begun
    spent = [[target_costs(to_target(run.rounds, target)) for run in runs] or unknown for runs in settings]
    found = {}
    for column in target_columns(target):
        values = [[one[column.key.removesuffix("_to_target")] for one in runs] for runs in spent]
        if any(value is not None for runs in values for value in runs):
            found[column.name] = column.cells(values)
    return found


def _some(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """One of each setting, where none has a value."""
    return [members[0] for members in list(groups(runs).values())[:_DRAWN]]


def _named(runs: Sequence[StoredRun]) -> list[Curve]:
    one_method = len({run.config.algorithm.name for run in runs}) == 1
    return by_settings(draw_curves(runs)) if one_method else draw_curves(runs)


def _best_first(
    by_setting: Mapping[str, Sequence[StoredRun]], ranked: Sequence[Place], keys: Sequence[str]
) -> list[StoredRun]:
    """The runs of the best settings, in that order."""
    return [run for place in ranked[:_DRAWN] for run in by_setting.get(_key(place, keys), [])]


def _by_setting(runs: Sequence[StoredRun], keys: Sequence[str]) -> dict[str, list[StoredRun]]:
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        found.setdefault(json.dumps([_setting(run, key) for key in keys], sort_keys=True), []).append(run)
    return found


def _key(place: Place, keys: Sequence[str]) -> str:
    return json.dumps([place.point[key] for key in keys], sort_keys=True)


def _setting(run: StoredRun, key: str) -> Any:
    """What the run has for a dotted key."""
    value: Any = run.config.model_dump(mode="json")
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _repeat(folder: Path, first: StoredRun) -> Text:
    """The best setting's command, and that of the whole grid."""
    grid = json.loads((folder / GRID).read_text(encoding="utf-8"))["grid"]
    words = [f"--grid {shlex.quote(f'{key}={json.dumps(values)}')}" for key, values in grid.items()]
    whole = " \\\n  ".join([f"fedamd sweep {shlex.quote(str(first.path / CONFIG))}", *words])
    best = folder / "best.toml"
    commands = [("The best setting", f"fedamd run {shlex.quote(str(best))}")] if best.is_file() else []
    return Text(title="How to repeat it", parts=[*commands, ("The whole grid", whole)], open=True)
