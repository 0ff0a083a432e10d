"""What is compared: settings and entrants, read from TOML files.

`methods.toml` has a line for every entrant, a label and its section of a config:

    fedavg = {}                                                    # the method of that name
    "FedVARP + momentum" = { name = "fedvarp", server = "momentum", search = { beta_1 = { linear = [0.5, 0.99] } } }
    "FedAMD, sequential" = { name = "fedamd", tau = 2, search = { p = false } }    # not searched

Every other file of the folder is a setting, and its name is the file's:

    title, targets     in words; three accuracies
    trials, rungs      how many hyper-parameters are tried, and the rounds after which a third of them goes on
    tuning_seeds       the first for all rungs, all for the last one; none of them is reported
    seeds              those that are
    without            entrants that are left out here, and why
    devices            of the clients, for simulated seconds; they change no trajectory, so runs keep their names
    [run]              a config without its algorithm;  [method] what all methods share: K, b'
"""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.space import Choice, Linear, Log, Range, Space
from fedamd.errors import FedamdError
from fedamd.registry import suggestion
from fedamd.runs.config import Config, load_config
from fedamd.runs.toml import read_toml

METHODS = "methods.toml"
_RANGES: dict[str, type[Log] | type[Linear]] = {"log": Log, "linear": Linear}
_SETTING = ("title", "targets", "trials", "rungs", "tuning_seeds", "seeds", "without", "devices", "run", "method")


@dataclass(frozen=True)
class Entrant:
    """A method under a label: what is fixed, and where the rest is searched."""

    label: str
    options: Mapping[str, Any]  # of [algorithm], its name among them
    space: Space

    def section(self, shared: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Its [algorithm] with these values of what is searched."""
        known = {name: value for name, value in shared.items() if name in _settings_of(self.options["name"])}
        return {**known, **self.options, **values}

    @property
    def defaults(self) -> dict[str, Any]:
        """The published values of what is searched, where a method has one within its space."""
        method = ALGORITHMS.find(self.options["name"])
        declared = _settings_of(self.options["name"]) | dict(method.presets)
        return {name: declared[name] for name, where in self.space.items() if _holds(where, declared.get(name))}


@dataclass(frozen=True)
class LeaderboardSetting:
    """A federation and a budget."""

    name: str
    title: str
    run: Mapping[str, Any]
    method: Mapping[str, Any]
    targets: tuple[float, ...]
    trials: int
    rungs: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    seeds: tuple[int, ...]
    without: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, float] | None = None

    @property
    def rounds(self) -> int:
        return self.rungs[-1]

    def kept(self, rung: int) -> int:
        """How many trials run on this rung: all, then a third of those before, at least one."""
        return max(1, round(self.trials / 3.0**rung))

    def declared(self, algorithm: Mapping[str, Any], seed: int, rounds: int) -> dict[str, Any]:
        """One run as it is written down: what names it in a store."""
        return {**self.run, "algorithm": dict(algorithm), "seed": seed, "rounds": rounds}

    def config(self, algorithm: Mapping[str, Any], seed: int, rounds: int, device: str) -> Config:
        """One run as it is made."""
        timed = {} if self.devices is None else {"devices": dict(self.devices)}
        return load_config(self.declared(algorithm, seed, rounds) | timed, {"device": device})


def read_board(folder: Path) -> tuple[list[LeaderboardSetting], list[Entrant]]:
    """All settings and entrants of a folder."""
    if not (folder / METHODS).is_file():
        raise FedamdError(f"{folder} has no {METHODS}: a leaderboard is a folder of that file and one for each setting")
    entrants = [_entrant(label, raw) for label, raw in _read(folder / METHODS).items()]
    paths = sorted(path for path in folder.glob("*.toml") if path.name != METHODS)
    if not paths or not entrants:
        raise FedamdError(f"{folder} has no {'setting' if entrants else 'entrant'}")
    settings = [_setting(path) for path in paths]
    for setting in settings:
        for label in setting.without:
            if label not in {entrant.label for entrant in entrants}:
                raise FedamdError(f"{folder / setting.name}.toml: without.{label}: there is no such entrant")
    return settings, entrants


def _entrant(label: str, raw: Any) -> Entrant:
    if not isinstance(raw, dict):
        raise FedamdError(f'{METHODS}: {label} should be a section, as in {label} = {{ name = "fedavg" }}')
    options = {"name": label} | {name: value for name, value in raw.items() if name != "search"}
    method = ALGORITHMS.find(options["name"], f"{METHODS}: {label}")
    told = raw.get("search", {})
    left_out = {name for name, one in told.items() if one is False}
    own = {name: _range(f"{METHODS}: {label}.search.{name}", told[name]) for name in told if name not in left_out}
    for name in (*options, *own):
        if name != "name" and name not in (known := _settings_of(options["name"])):
            raise FedamdError(f"{METHODS}: {label}: {options['name']} has no {name}{suggestion(name, known)}")
    space = {name: where for name, where in {**method.space, **own}.items() if name not in (*options, *left_out)}
    return Entrant(label, options, space)


def _setting(path: Path) -> LeaderboardSetting:
    raw = _read(path)
    for key in raw:
        if key not in _SETTING:
            raise FedamdError(f"{path}: unknown key {key}{suggestion(key, _SETTING)}; allowed: {', '.join(_SETTING)}")
    try:
        setting = LeaderboardSetting(
            path.stem,
            raw["title"],
            raw["run"],
            raw.get("method", {}),
            tuple(raw["targets"]),
            raw["trials"],
            tuple(raw["rungs"]),
            tuple(raw["tuning_seeds"]),
            tuple(raw["seeds"]),
            raw.get("without", {}),
            raw.get("devices"),
        )
    except KeyError as error:
        raise FedamdError(f"{path}: {error.args[0]} is missing") from None
    if both := set(setting.seeds) & set(setting.tuning_seeds):
        raise FedamdError(
            f"{path}: seed {min(both)} is in both seeds and tuning_seeds: do not tune on what is reported"
        )
    if list(setting.rungs) != sorted(set(setting.rungs)) or not setting.rungs or setting.trials < 1:
        raise FedamdError(f"{path}: rungs should be rounds in increasing order, and trials at least 1")
    try:
        setting.config({"name": "fedavg"}, setting.seeds[0], setting.rounds, "cpu")
    except FedamdError as error:
        raise FedamdError(f"{path}: {error}") from None
    return setting


def _range(where: str, raw: Any) -> Range:
    kind, values = next(iter(raw.items())) if isinstance(raw, dict) and len(raw) == 1 else ("", None)
    if kind == "choice" and isinstance(values, list) and values:
        return Choice(tuple(values))
    if kind in _RANGES and isinstance(values, list) and len(values) == 2 and values[0] < values[1]:
        return _RANGES[kind](*values)
    raise FedamdError(f"{where}: should be {{ log = [low, high] }}, {{ linear = [low, high] }} or {{ choice = […] }}")


def _settings_of(name: str) -> dict[str, Any]:
    """The method's options and their defaults."""
    make = ALGORITHMS.find(name).make
    if dataclasses.is_dataclass(make):
        return {one.name: one.default for one in dataclasses.fields(make)}
    return {one.name: one.default for one in inspect.signature(make).parameters.values()}


def _holds(where: Range, value: Any) -> bool:
    if isinstance(where, Choice):
        return value in where.values
    return isinstance(value, int | float) and where.low <= value <= where.high


def _read(path: Path) -> dict[str, Any]:
    return read_toml(path)
