"""Several methods on one problem: the same data, clients, cohorts and x_0, since all of these follow from the seed.

Each method is a run in a folder of its own; `comparison.json` and `comparison.csv` beside them hold a row for each, and
`methods.json` says what was begun: a comparison that was killed goes on in the same folder, another one is refused.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from fedamd.algorithms import ALGORITHMS
from fedamd.engines.distributed import in_step, join
from fedamd.errors import FedamdError
from fedamd.files import exclusively, make_folder, write_text
from fedamd.metrics import Measure, Target
from fedamd.registry import suggestion
from fedamd.runs.api import resume, run
from fedamd.runs.config import Config, load_config
from fedamd.runs.folder import CONFIG, refuse_taken
from fedamd.runs.labels import labels
from fedamd.runs.making import option_names
from fedamd.runs.records import Record
from fedamd.runs.run import Listener
from fedamd.runs.sealed import digest, read_json, sealed_json
from fedamd.runs.session import Sink
from fedamd.runs.summary import Summary, fairness, read_target, results, target_costs, to_target, told_target
from fedamd.torchrun import is_writer

TARGET = 0.75  # the target accuracy where no config names one; the paper's for Fashion-MNIST
PROBLEM = ("data", "partition", "model", "clients", "cohort", "seed", "failure_rate", "dtype")
SHARED = ("eta_l", "eta_s", "steps", "small_batch", "large_batch", "weights")  # mean the same in every method
OPTION = "algorithm."
METHODS = "methods.json"


@dataclass(frozen=True)
class Comparison:
    """What came of it: a row for every method, in the order in which they ran."""

    folder: Path
    target: Target
    measure: Measure  # what the methods are judged by
    rows: list[Summary]

    @property
    def best(self) -> Summary | None:
        """The row of the method that became best; the earlier of equals."""
        key = f"best_{self.measure.name}"
        known = [row for row in self.rows if row[key] is not None]
        return max(known, key=lambda row: self.measure.score(row[key]), default=None)


def contestants(
    files: Sequence[Path], algorithms: Sequence[str] = (), changes: Mapping[str, Any] | None = None
) -> tuple[list[Config], list[str]]:
    """The configs to compare, and notes on settings that some of the methods do not have.

    With `algorithms`, at most one file says what the problem is. Its [algorithm] options are those of its own method;
    the others take over the ones in SHARED. A change of an algorithm's option goes to every method that has it.
    """
    plain = {key: value for key, value in (changes or {}).items() if not key.startswith(OPTION)}
    options = {key.removeprefix(OPTION): v for key, v in (changes or {}).items() if key.startswith(OPTION)}
    if "name" in options:
        raise FedamdError("algorithm.name: a comparison takes its methods from --algorithms or from several configs")
    if not algorithms:
        loaded = [load_config(file, plain) for file in files]
        pairs = [(config, config.algorithm.name) for config in loaded]
    elif len(files) > 1:
        raise FedamdError(f"--algorithms compares methods on the problem of one config, but {len(files)} were given")
    else:
        base = load_config(files[0] if files else None, plain)
        pairs = [(base, name) for name in algorithms]
    configs = [with_method(config, name, options) for config, name in pairs]
    return configs, list(_notes(configs, options))


def compare(
    configs: Sequence[Config],
    out: Path,
    target: float | Mapping[str, float] | None = None,
    listen: Listener | Sink | None = None,
    objects: Sequence[Mapping[str, Any]] | None = None,
) -> Comparison:
    """Run one after the other. A method that diverges does not stop the others; an interruption does.

    `target` is a value of what the methods are judged by, or {metric: value}; else it is the first config's.
    `objects` are for each config the data set, the model and the algorithm that it tells of but cannot name.
    """
    _refuse_other_problems(configs)
    names = _distinct(labels(configs))
    aim = _aim(configs[0], target)
    entries = [(name, config.changed(aim)) for name, config in zip(names, configs, strict=True)]
    with ExitStack() as stack:
        with in_step(join(configs[0].device)):
            if is_writer():
                make_folder(out)
                stack.enter_context(exclusively(out))
                _claim(out, entries)
        return _compared(entries, objects or [{}] * len(entries), out, listen)


def _aim(first: Config, target: float | Mapping[str, float] | None) -> dict[str, Any]:
    """The settings that state the target of all: what is asked for, else what the first config has."""
    if target is None and first.target is None:
        return {"target_accuracy": first.target_accuracy or TARGET}
    return {"target": first.target if target is None else target}


def _compared(
    entries: Sequence[tuple[str, Config]],
    objects: Sequence[Mapping[str, Any]],
    out: Path,
    listen: Listener | Sink | None,
) -> Comparison:
    """A line for every method, of a run that is begun or continued."""
    rows: list[Summary] = []
    measure, aim = Measure(), Target(Measure(), TARGET)
    for (name, config), own in zip(entries, objects, strict=True):
        folder = out / _slug(name)
        begun = (folder / CONFIG).exists()
        result = resume(folder, listen=listen, **own) if begun else run(config, out=folder, listen=listen, **own)
        measure, aim = Measure(**result.summary["measure"]), read_target(result.summary) or aim
        rows.append(row(name, result.summary["status"], result.metrics, aim, measure) | {"folder": _slug(name)})
        if is_writer():
            _write(out, aim, rows)
        if result.summary["status"] == "interrupted":
            break
    return Comparison(out, aim, measure, rows)


def _claim(out: Path, entries: Sequence[tuple[str, Config]]) -> None:
    """Write down what is compared; a folder in which something else was begun is refused."""
    own = {"methods": {name: digest(json.dumps(config.plain(), default=str)) for name, config in entries}}
    if not (out / METHODS).exists():
        refuse_taken(out)
        write_text(out / METHODS, sealed_json(own))
    elif read_json(out / METHODS)["methods"] != own["methods"]:
        raise FedamdError(
            f"{out} was begun as another comparison: continue it with the command it was begun with, "
            "or choose another --out"
        )


def row(name: str, status: str, records: Sequence[Record], target: Target, measure: Measure) -> Summary:
    """One method's line: how good it became, for the worst-off clients too, and what it cost."""
    rounds = [record for record in records if record.round >= 0]
    return {
        "method": name,
        "status": status,
        **results(rounds, measure),
        "worst_decile": _worst_decile(rounds, measure),
        **{f"{cost}_to_target": value for cost, value in target_costs(to_target(rounds, target)).items()},
        **target_costs({"rounds": len(rounds)} | rounds[-1].costs if rounds else None),
        "seconds": round(sum(record.seconds for record in records), 3),
    }


def _worst_decile(rounds: Sequence[Record], measure: Measure) -> float | None:
    """The mean over the worst tenth of clients, each on its own tests; None where they are not evaluated."""
    spread = fairness(rounds) or {}
    found = spread.get("loss" if measure.name == "test_loss" else measure.name) or {}
    worst: float | None = found.get("worst_decile")
    return worst


def default_folder(parent: Path = Path("compare")) -> Path:
    """A folder that no other comparison has."""
    return parent / f"{datetime.now():%Y%m%d-%H%M%S}-{token_hex(3)}"


def with_method(base: Config, name: str, options: Mapping[str, Any]) -> Config:
    """The base's problem with this method, and the options that it has."""
    known = _fields(name)
    own = base.algorithm.options
    kept = own if name == base.algorithm.name else {key: own[key] for key in own if key in SHARED and key in known}
    given = {key: value for key, value in options.items() if key in known}
    try:
        return base.changed({"algorithm": {"name": name} | kept | given})
    except FedamdError as error:
        raise FedamdError(f"{name}: {str(error).removeprefix('the configuration: ')}") from None


def _fields(name: str) -> list[str]:
    return option_names(ALGORITHMS.find(name, "algorithms").make)


def _notes(configs: Sequence[Config], options: Mapping[str, Any]) -> Iterator[str]:
    """Who does not have an option that was set; one that nobody has is a mistake."""
    methods = list(dict.fromkeys(config.algorithm.name for config in configs))
    for option in options:
        without = [name for name in methods if option not in _fields(name)]
        if len(without) == len(methods):
            near = suggestion(option, {field for name in methods for field in _fields(name)})
            raise FedamdError(f"algorithm.{option}: none of {', '.join(methods)} has this option{near}")
        if without:
            yield f"{', '.join(without)}: no option {option}, left as it is"


def _refuse_other_problems(configs: Sequence[Config]) -> None:
    if len(configs) < 2:
        raise FedamdError("a comparison needs two methods: name some with --algorithms, or give several configs")
    first = configs[0].plain()
    for number, config in enumerate(configs[1:], start=2):
        other = config.plain()
        for key in PROBLEM:
            if other[key] != first[key]:
                raise FedamdError(
                    f"configs 1 and {number} differ in {key} ({first[key]} and {other[key]}): a comparison needs one "
                    f"problem; give both the same {key}, or run them on their own and draw them with `fedamd plot`"
                )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where two are the same."""
    return [
        name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        for index, name in enumerate(names)
    ]


def _slug(name: str) -> str:
    return re.sub(r"[^\w.=-]+", "-", name)


def _write(out: Path, target: Target, rows: Sequence[Summary]) -> None:
    content = told_target(target) | {"methods": list(rows)}
    write_text(out / "comparison.json", json.dumps(content, indent=2) + "\n")
    table = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)  # one that diverged at once has measured less
    writer = csv.DictWriter(table, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / "comparison.csv", table.getvalue())
