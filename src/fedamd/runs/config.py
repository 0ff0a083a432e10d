"""The one schema of a run, read from TOML, from `--set key=value` and from Python dictionaries.

Each of the sections [data], [partition], [model] and [algorithm] names a thing (`name = …`); its other keys are the
options of that thing and are checked by the thing itself, so a method's hyper-parameters are declared in one place.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from fedamd.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, Algorithm
from fedamd.algorithms.by_theory import WORDS
from fedamd.data import SOURCES
from fedamd.data.partition import PARTITIONERS, Partitioner
from fedamd.errors import FedamdError
from fedamd.files import is_text
from fedamd.models import MODELS
from fedamd.oracles.catalogue import ORACLES
from fedamd.registry import import_object, importable, is_object_path
from fedamd.runs.making import make, refuse_booleans, sentence
from fedamd.runs.toml import DEEPEST, read_toml, to_toml
from fedamd.runs.trust import refuse_code_of_a_foreign_run

__all__ = ["Config", "Section", "load_config", "parse_setting", "to_toml"]

_UNSAID = (
    "sampler",
    "schedules",
    "metrics",
    "stop",
    "callbacks",
    "precision",
)  # not written where they are the paper's: older runs read the same
LISTS = ("metrics", "callbacks")  # names, in a list or with commas between them
COHORT = 20  # A, unless told; all clients where there are fewer
_COMPANIONS = {  # data set → its usual partition and model
    "fashion-mnist": ("classes", "lenet5"),
    "cifar-10": ("classes", "lenet5"),
    "cifar-10-jpeg": ("classes", "lenet5"),
    "cifar-100": ("iid", "lenet5"),
    "femnist": ("natural", "mlp"),
    "leaf": ("natural", "mlp"),
    "csv": ("auto", "mlp"),
    "npz": ("auto", "mlp"),
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

    @property
    def given(self) -> bool:
        """Whether this tells of an object that was given from Python, and cannot be made from its name."""
        return "given" in self.options


class Stop(BaseModel):
    """When a run ends before its last round."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str | None = Field(default=None, description="the metric to watch; default: the first of metrics")
    target: float | None = Field(default=None, description="stop when the metric reaches this")
    patience: int | None = Field(default=None, ge=1, description="stop after this many evaluations without improvement")
    max_gradients: float | None = Field(default=None, gt=0, description="total gradient samples")
    max_bits: float | None = Field(default=None, gt=0, description="total bits, up and down")
    max_simulated_seconds: float | None = Field(
        default=None, gt=0, description="simulated seconds on the clients' devices"
    )
    max_seconds: float | None = Field(default=None, gt=0, description="wall-clock seconds of this process")


class Config(BaseModel):
    """A run: what is trained, on whose data, how, and for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Section = Section(name="digits")
    partition: Section = Section(name="classes")
    model: Section = Section(name="mlp")
    algorithm: Section = Section(name=DEFAULT_ALGORITHM)
    sampler: Section = Section(name="uniform")
    schedules: dict[str, Section] = Field(default={}, description="hyper-parameters that change with the round")

    clients: int = Field(default=100, ge=1, description="M, the number of clients")
    cohort: int = Field(default=COHORT, ge=1, description="A, how many of them take part in a round")
    rounds: int = Field(default=100, ge=1, description="T, the number of rounds")
    seed: int = Field(default=0, ge=0, lt=2**63, description="the seed of everything random")
    failure_rate: float = Field(default=0.0, ge=0, lt=1, description="the probability that a client never replies")
    devices: dict[str, float] | str | None = Field(default=None, description="speeds for simulated seconds, or a CSV")
    deadline: float | None = Field(default=None, gt=0, description="simulated seconds after which no reply counts")
    target: float | dict[str, float] | None = Field(
        default=None, description="report when this is reached: of the measure, or as {mse = 0.1}"
    )
    target_accuracy: float | None = Field(default=None, gt=0, le=1, description="report when this accuracy is reached")
    evaluate_every: int = Field(default=1, ge=1, description="rounds between two evaluations on the test set")
    metrics: tuple[str, ...] = Field(
        default=(), description="measured besides loss and accuracy; the first one chooses"
    )
    test_share: float | None = Field(
        default=None, gt=0, lt=1, description="of every client's samples, for its own tests"
    )
    evaluate_clients_every: int | None = Field(default=None, ge=1, description="rounds between tests on every client")
    stop: Stop = Field(default=Stop(), description="when to stop early")
    callbacks: tuple[str, ...] = Field(
        default=(), description="notified of every round: names from `fedamd list callbacks`, or your own"
    )
    checkpoint_every: int = Field(default=10, ge=1, description="rounds between two checkpoints")

    engine: Literal["auto", "loop", "vector", "distributed"] = Field(
        default="auto", description="what runs the clients: the fastest that can, or one of `fedamd list engines`"
    )
    oracle: str = Field(default="auto", description="what computes gradients: auto, or one of `fedamd list oracles`")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where gradients are computed")
    dtype: Literal["float32", "float64"] = Field(default="float32", description="the precision of everything")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        default="float32", description="how exactly products are computed; tf32 needs a GPU, bf16 goes through autograd"
    )
    micro_batch: int | None = Field(default=None, ge=1, description="largest number of samples in one gradient call")
    client_store: Literal["memory", "host", "disk"] = Field(
        default="memory", description="where held vectors are simulated: with the model, in the host's memory, on disk"
    )

    _stored: bool = PrivateAttr(default=False)  # read for what it says: users' modules need not be here

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_data(cls, raw: Any) -> Any:
        """Every data set comes with the partition and the model it is usually seen with."""
        if not isinstance(raw, dict) or not isinstance(data := raw.get("data", {}), dict):
            return raw
        if not isinstance(named := data.get("name", "digits"), str):
            return raw
        partition, model = _COMPANIONS.get(named, ("classes", "mlp"))
        if is_object_path(named) or "given" in data:
            partition = "auto"
        raw = {"partition": {"name": partition}, "model": {"name": model}} | raw
        usual = {"data": "digits", "partition": partition, "model": model, "algorithm": DEFAULT_ALGORITHM}
        for section, name in usual.items():
            if isinstance(raw.get(section), dict):
                raw[section] = {"name": name} | raw[section]
        logistic = isinstance(raw["model"], dict) and named == raw["model"]["name"] == "logistic"
        if logistic and "regularisation" in data:  # the two are one problem
            raw["model"] = {"regularisation": data["regularisation"]} | raw["model"]
        if isinstance(schedules := raw.get("schedules"), dict):  # a word alone is a name without options
            raw["schedules"] = {key: {"name": one} if isinstance(one, str) else one for key, one in schedules.items()}
        for key in LISTS:
            if isinstance(names := raw.get(key), str):
                raw[key] = [name.strip() for name in names.split(",") if name.strip()]
        if isinstance(clients := raw.get("clients"), int):
            raw = {"cohort": max(1, min(COHORT, clients))} | raw
        return raw

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> "Config":
        """Whatever is named exists and takes its options. A stored config is read without importing anyone's code."""
        self._stored = bool(info.context and info.context.get("stored"))
        if "clients" in self.model_fields_set or self.partition.name not in ("auto", "natural"):
            self.refuse_large_cohort()  # else the data set may say how many there are
        if isinstance(self.target, dict) and len(self.target) != 1:
            raise FedamdError("target: name one metric and its value, as in target = {mse = 0.1}")
        if ":" not in self.data.name and not self.data.given:  # a user's own is imported when it is made
            SOURCES.find(self.data.name, "data.name")
        if ":" not in self.model.name and not self.model.given:
            MODELS.find(self.model.name, "model.name")
        if ":" not in self.oracle and self.oracle != "auto":
            ORACLES.find(self.oracle, "oracle")
        if not self._foreign(self.partition):
            self.build_partitioner()
        if not self._foreign(self.algorithm) and not self.algorithm.given:
            self.outline()
        return self

    def _foreign(self, section: Section) -> bool:
        """Whether this names something outside the package that is not to be imported now."""
        return self._stored and any(map(is_object_path, (section.name, *section.options.values())))

    def refuse_large_cohort(self) -> None:
        if self.cohort > self.clients:
            raise FedamdError(
                f"cohort (A = {self.cohort}) must not exceed clients (M = {self.clients}): "
                "clients are drawn without replacement"
            )

    @property
    def by_theory(self) -> tuple[str, ...]:
        """The hyper-parameters that are left to theory."""
        options = self.algorithm.options.items()
        return tuple(name for name, value in options if isinstance(value, str) and value in WORDS)

    def build_algorithm(self) -> Algorithm:
        """The method with its hyper-parameters."""
        if left := self.by_theory:
            raise FedamdError(
                f'algorithm.{left[0]} = "{self.algorithm.options[left[0]]}" needs the data and the model of a '
                "simulation; give a number"
            )
        return self.outline()

    def outline(self) -> Algorithm:
        """The method with its hyper-parameters, those that are left to theory at their defaults."""
        refuse_given(self.algorithm, "algorithm")
        method, by_theory = ALGORITHMS.find(self.algorithm.name, "algorithm.name"), self.by_theory
        options = dict(method.presets) | self.algorithm.options
        named = {
            name: import_object(str(value), f"algorithm.{name}") if is_object_path(value) else value
            for name, value in options.items()
            if name not in by_theory
        }
        made = make(method.make, named, "algorithm")
        if not isinstance(made, Algorithm):
            raise FedamdError(f"algorithm.name: {self.algorithm.name} made a {type(made).__name__}, not an Algorithm")
        for name in by_theory:
            if name not in made.has_theory_for:
                covered = ", ".join(made.has_theory_for) or "nothing"
                raise FedamdError(
                    f'algorithm.{name}: "{self.algorithm.options[name]}" is for what a method has theory for, and '
                    f"{self.algorithm.name} has it for {covered}; give a number"
                )
        return made

    def build_partitioner(self) -> Partitioner:
        """The partitioner with its options."""
        return make(PARTITIONERS.find(self.partition.name, "partition.name"), self.partition.options, "partition")

    def plain(self) -> dict[str, Any]:
        """As dictionaries and numbers, every default filled in."""
        plain = self.model_dump(mode="json", exclude_none=True)
        for name in _UNSAID:
            if getattr(self, name) == type(self).model_fields[name].default:
                del plain[name]
        if self._foreign(self.algorithm) or self.algorithm.given:
            return plain  # as it was written: defaults were filled in then
        algorithm = self.outline()
        values: dict[str, Any] = {}
        if dataclasses.is_dataclass(algorithm):
            values = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
        options = {name: value for name, value in values.items() if value is not None and not callable(value)}
        return plain | {"algorithm": {"name": self.algorithm.name} | options | self.algorithm.options}

    def changed(self, changes: Mapping[str, Any]) -> "Config":
        """With other values for some dotted keys; what has not been set stays open."""
        return load_config(self.model_dump(mode="json", exclude_unset=True), changes, stored=self._stored)

    def told(self, sections: Mapping[str, Mapping[str, Any]]) -> "Config":
        """With these whole sections in place of its own."""
        if not sections:
            return self
        own = self.model_dump(mode="json", exclude_unset=True)
        return load_config(own | dict(sections), stored=self._stored)


def refuse_given(section: Section, argument: str) -> None:
    """An object that was given from Python cannot be made from its description."""
    if section.given:
        raise FedamdError(
            f"this config is of a run with an object from Python, {section.name}: give it again as {argument}=…"
        )


def load_config(
    source: Path | str | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    stored: bool = False,
    trust: bool = False,
) -> Config:
    """A config from a TOML file or a dictionary, with dotted keys changed on top; every mistake is a `FedamdError`.

    Modules beside the file can be named in it. `stored` reads the config of a run for what it says, importing nothing;
    otherwise code named in the folder of somebody else's run is imported only with `trust`.
    """
    where = str(source) if isinstance(source, str | Path) else "the configuration"
    raw = read_toml(Path(source)) if isinstance(source, str | Path) else _deep_copy(source or {})
    if isinstance(source, str | Path) and not stored:
        if not trust:
            refuse_code_of_a_foreign_run(Path(source), raw)
        importable(Path(source).parent)
    for key, value in sorted((changes or {}).items(), key=lambda change: not change[0].endswith(".name")):
        _put(raw, key, value)  # names first: naming another thing drops the options of the former one
    try:
        _refuse_what_is_no_text(raw)
        refuse_booleans(raw, {name: field.default for name, field in Config.model_fields.items()})
        return Config.model_validate(raw, context={"stored": stored})
    except ValidationError as error:
        raise FedamdError(f"{where}: {sentence(error, Config)}") from None
    except FedamdError as error:
        raise FedamdError(f"{where}: {error}") from None


def _refuse_what_is_no_text(value: Any) -> None:
    """A path from the command line may be bytes that are not UTF-8, and could not be written down."""
    if isinstance(value, str) and not is_text(value):
        raise FedamdError(f"{value!r} is not text in UTF-8")
    if isinstance(value, Mapping | list | tuple):
        for one in (*value, *value.values()) if isinstance(value, Mapping) else value:
            _refuse_what_is_no_text(one)


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` from the command line; the value is read as TOML where it can be, else it is a word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedamdError(f"--set {text}: expected key=value, as in algorithm.eta_l=0.03")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, endless nesting
        raise FedamdError(f"--set {key.strip()}: {str(error)[:200]}") from None


def _deep_copy(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _deep_copy(value) if isinstance(value, Mapping) else value for key, value in raw.items()}


def _put(raw: dict[str, Any], key: str, value: Any) -> None:
    """raw["a"]["b"] = value for the key "a.b"; a new name leaves no options of what was named before."""
    *sections, last = key.split(".")
    if len(sections) > DEEPEST:
        raise FedamdError(f"{key[:40]}… has {len(sections) + 1} parts, and no key has that many")
    for name in sections:
        raw = raw.setdefault(name, {})
        if not isinstance(raw, dict):
            raise FedamdError(f"{key}: {name} is a value, not a section")
    if last == "name" and raw.get("name", value) != value:
        raw.clear()
    raw[last] = value
