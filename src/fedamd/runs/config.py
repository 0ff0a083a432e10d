"""The one schema of a run, read from TOML, from `--set key=value` and from Python dictionaries.

Each of the sections [data], [partition], [model] and [algorithm] names a thing (`name = …`); its other keys are the
options of that thing and are checked by the thing itself, so a method's hyper-parameters are declared in one place.
"""

import dataclasses
import functools
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from fedamd.algorithms import ALGORITHMS, Algorithm, FedAMD
from fedamd.data import PARTITIONERS, SOURCES
from fedamd.data.partition import Partitioner
from fedamd.errors import FedamdError
from fedamd.models import MODELS
from fedamd.registry import choose, import_object, suggestion

T = TypeVar("T")

THEORY = "theory"  # in place of a learning rate of FedAMD: the one its theorem admits, found by `theory_rates`
_COMPANIONS = {  # data set → its usual partition and model
    "fashion-mnist": ("classes", "lenet5"),
    "quadratic": ("natural", "quadratic"),
    "logistic": ("natural", "logistic"),
}


class Section(BaseModel):
    """A thing by name, and its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Config(BaseModel):
    """A run: what is trained, on whose data, how, and for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Section = Section(name="digits")
    partition: Section = Section(name="classes")
    model: Section = Section(name="mlp")
    algorithm: Section = Section(name="fedamd")

    clients: int = Field(default=100, ge=1, description="M, the number of clients")
    cohort: int = Field(default=20, ge=1, description="A, how many of them take part in a round")
    rounds: int = Field(default=100, ge=1, description="T, the number of rounds")
    seed: int = Field(default=0, ge=0, lt=2**63, description="the seed of everything random")
    failure_rate: float = Field(default=0.0, ge=0, lt=1, description="the probability that a client never replies")
    target_accuracy: float | None = Field(default=None, gt=0, le=1, description="report when this is reached")
    evaluate_every: int = Field(default=1, ge=1, description="rounds between two evaluations on the test set")
    checkpoint_every: int = Field(default=10, ge=1, description="rounds between two checkpoints")

    engine: Literal["auto", "loop", "vector", "distributed"] = "auto"
    oracle: Literal["auto", "autograd", "native", "stacked"] = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "float64"] = "float32"
    micro_batch: int | None = Field(default=None, ge=1, description="largest number of samples in one gradient call")
    client_store: Literal["memory", "disk"] = Field(default="memory", description="where held vectors are simulated")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_data(cls, raw: Any) -> Any:
        """Every data set comes with the partition and the model it is usually seen with."""
        if not isinstance(raw, dict) or not isinstance(data := raw.get("data", {}), dict):
            return raw
        if not isinstance(named := data.get("name", "digits"), str):
            return raw
        partition, model = _COMPANIONS.get(named, ("classes", "mlp"))
        raw = {"partition": {"name": partition}, "model": {"name": model}} | raw
        for section, name in (("data", "digits"), ("partition", partition), ("model", model), ("algorithm", "fedamd")):
            if isinstance(raw.get(section), dict):
                raw[section] = {"name": name} | raw[section]
        logistic = isinstance(raw["model"], dict) and named == raw["model"]["name"] == "logistic"
        if logistic and "regularisation" in data:  # the two are one problem
            raw["model"] = {"regularisation": data["regularisation"]} | raw["model"]
        return raw

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        if self.cohort > self.clients:
            raise FedamdError(
                f"cohort (A = {self.cohort}) must not exceed clients (M = {self.clients}): "
                "clients are drawn without replacement"
            )
        choose(SOURCES, self.data.name, "data.name")
        self.outline()
        self.build_partitioner()
        if ":" not in self.model.name:
            choose(MODELS, self.model.name, "model.name")
        return self

    @property
    def by_theory(self) -> tuple[str, ...]:
        """The learning rates that are left to theory."""
        return tuple(name for name in ("eta_l", "eta_s") if self.algorithm.options.get(name) == THEORY)

    def build_algorithm(self) -> Algorithm:
        """The method with its hyper-parameters."""
        if self.by_theory:
            raise FedamdError(
                f'algorithm.{self.by_theory[0]} = "theory" needs the data and the model of a simulation; give a number'
            )
        return self.outline()

    def outline(self) -> Algorithm:
        """The method with its hyper-parameters, learning rates that are left to theory at their defaults."""
        method, by_theory = choose(ALGORITHMS, self.algorithm.name, "algorithm.name"), self.by_theory
        if by_theory and method.make is not FedAMD:
            raise FedamdError(
                f'algorithm.{by_theory[0]}: "theory" is for fedamd, whose theorems state learning rates; '
                f"give {self.algorithm.name} a number"
            )
        options = dict(method.presets) | self.algorithm.options
        options = {name: value for name, value in options.items() if name not in by_theory}
        if isinstance(p := options.get("p"), str) and ":" in p:
            options["p"] = import_object(p, "algorithm.p")
        return _instance(method.make, options, "algorithm")

    def build_partitioner(self) -> Partitioner:
        """The partitioner with its options."""
        return _instance(
            choose(PARTITIONERS, self.partition.name, "partition.name"), self.partition.options, "partition"
        )

    def plain(self) -> dict[str, Any]:
        """As dictionaries and numbers, every default filled in."""
        algorithm = self.outline()
        values = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}  # type: ignore[arg-type]
        options = {name: value for name, value in values.items() if value is not None and not callable(value)}
        plain = self.model_dump(mode="json", exclude_none=True)
        return plain | {"algorithm": {"name": self.algorithm.name} | options | self.algorithm.options}


def load_config(
    source: Path | str | Mapping[str, Any] | None = None, changes: Mapping[str, Any] | None = None
) -> Config:
    """A config from a TOML file or a dictionary, with dotted keys changed on top; every mistake is a `FedamdError`."""
    where = str(source) if isinstance(source, str | Path) else "the configuration"
    raw = _read_toml(Path(source)) if isinstance(source, str | Path) else _deep_copy(source or {})
    for key, value in sorted((changes or {}).items(), key=lambda change: not change[0].endswith(".name")):
        _put(raw, key, value)  # names first: naming another thing drops the options of the former one
    try:
        _refuse_booleans(raw, {name: field.default for name, field in Config.model_fields.items()})
        return Config.model_validate(raw)
    except ValidationError as error:
        raise FedamdError(f"{where}: {_sentence(error, Config)}") from None
    except FedamdError as error:
        raise FedamdError(f"{where}: {error}") from None


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` from the command line; the value is read as TOML where it can be, else it is a word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedamdError(f"--set {text}: expected key=value, as in algorithm.eta_l=0.03")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def to_toml(plain: Mapping[str, Any]) -> str:
    """The config as TOML: numbers and words first, then the sections."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items() if not isinstance(value, Mapping)]
    for key, section in plain.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{key}]", *(f"{_toml_key(name)} = {_toml_value(value)}" for name, value in section.items())]
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    """JSON writes words and finite numbers as TOML does; tables and what lies in them it does not."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(name)} = {_toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedamdError(f"there is no config file {path}") from None
    except IsADirectoryError:
        raise FedamdError(f"cannot read {path}: it is a folder, and a config is a TOML file") from None
    except OSError as error:
        raise FedamdError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FedamdError(f"cannot read {path}: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise FedamdError(f"{path} is not valid TOML: {error}") from None


def _deep_copy(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _deep_copy(value) if isinstance(value, Mapping) else value for key, value in raw.items()}


def _put(raw: dict[str, Any], key: str, value: Any) -> None:
    """raw["a"]["b"] = value for the key "a.b"; a new name leaves no options of what was named before."""
    *sections, last = key.split(".")
    for name in sections:
        raw = raw.setdefault(name, {})
        if not isinstance(raw, dict):
            raise FedamdError(f"{key}: {name} is a value, not a section")
    if last == "name" and raw.get("name", value) != value:
        raw.clear()
    raw[last] = value


def _instance(kind: Callable[..., T], options: Mapping[str, Any], where: str) -> T:
    """A dataclass with checked types and values; mistakes name the section and the key."""
    allowed = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in allowed:
            raise FedamdError(
                f"{where}.{name}: unknown key{suggestion(name, allowed)}; allowed are {', '.join(allowed)}"
            )
    _refuse_booleans(options, {field.name: field.default for field in dataclasses.fields(kind)}, f"{where}.")  # type: ignore[arg-type]
    try:
        return cast(T, _adapter(kind).validate_python(dict(options)))
    except ValidationError as error:
        raise FedamdError(_sentence(error, kind, where)) from None
    except FedamdError as error:
        raise FedamdError(f"{where}: {error}") from None


@functools.cache
def _adapter(kind: Callable[..., Any]) -> TypeAdapter[Any]:
    """Made once for each kind: a grid of rates makes the same method hundreds of times."""
    return TypeAdapter(kind)  # type: ignore[arg-type]


def _refuse_booleans(values: Mapping[str, Any], defaults: Mapping[str, Any], where: str = "") -> None:
    """`true` would pass for the number 1."""
    for name, value in values.items():
        if isinstance(value, bool) and name in defaults and not isinstance(defaults[name], bool):
            raise FedamdError(f"{where}{name}: should be a number or a word, not {str(value).lower()}")


def _sentence(error: ValidationError, kind: Any, where: str = "") -> str:
    """The first mistake pydantic found, as one sentence that names the key and the allowed values."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), FedamdError):
        return f"{where}: {cause}" if where else str(cause)
    names = [part for part in first["loc"] if isinstance(part, str)][: 1 if where else 2]
    key = ".".join([*([where] if where else []), *names])
    if first["type"] == "extra_forbidden":
        allowed = list(kind.model_fields)
        return f"{key}: unknown key{suggestion(names[0], allowed)}; allowed are {', '.join(allowed)}"
    reasons = dict.fromkeys(
        _reason(one) for one in error.errors() if one["loc"][: len(names)] == first["loc"][: len(names)]
    )
    return f"{key}: {' or '.join(reasons)}, not {first['input']!r}"


def _reason(error: Any) -> str:
    if error["type"] == "model_type":
        return f'should be a section, as in {error["loc"][0]}.name = "…"'
    message: str = error["msg"]
    return message.removeprefix("Input ").removeprefix("Value error, ")
