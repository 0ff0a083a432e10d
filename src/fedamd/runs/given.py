"""Objects given from Python, told truthfully: the section of a config that says what really ran.

A method whose class can be named, and whose hyper-parameters are numbers and words, is written as if it had been named:
its config.toml repeats the run. Any other object is told by its name and a fingerprint of what it is, with words that
say that it must be given again; a run goes on with the same object only.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.base import Algorithm
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.runs.checkpoint import tensor_digest
from fedamd.runs.config import Config, load_config
from fedamd.runs.sealed import digest

Told = dict[str, Any]  # a section of a config


def given_sections(
    dataset: Dataset | None = None, model: nn.Module | None = None, algorithm: Algorithm | None = None
) -> dict[str, Told]:
    """The sections of a config that tell these objects."""
    sections: dict[str, Told] = {}
    if dataset is not None:
        sections["data"] = tell_dataset(dataset)
        if dataset.clients is not None:
            sections["partition"] = {"name": "natural"}
    if model is not None:
        sections["model"] = tell_model(model)
    if algorithm is not None:
        sections["algorithm"] = tell_algorithm(algorithm)
    return sections


def refuse_others(config: Config, sections: Mapping[str, Told]) -> None:
    """Refuse to go on with an object that is not the one the config tells of."""
    begun = config.plain()
    for name, told in sections.items():
        before = begun[name]
        now = load_config({name: told}).plain()[name] if name == "algorithm" and "given" not in told else told
        if before != now:
            differ = [key for key in before | now if before.get(key) != now.get(key) and key != "given"]
            detail = ", ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in differ[:3])
            raise FedamdError(f"the run was begun with another {name} ({detail}): resume it with the one it began with")


def words(
    dataset: Dataset | None = None, model: nn.Module | None = None, algorithm: Algorithm | None = None
) -> dict[str, str]:
    """The objects as earlier versions told them, beside a config that did not."""
    told = {
        "dataset": dataset.name if dataset else None,
        "model": type(model).__name__ if model else None,
        "algorithm": repr(algorithm) if algorithm else None,
    }
    return {name: word for name, word in told.items() if word is not None}


def mended(config: Config, told: Mapping[str, str]) -> Config:
    """The config of a run of an earlier version, with sections that tell of the objects it was begun with."""
    sections = {"dataset": "data", "model": "model", "algorithm": "algorithm"}
    return config.told(
        {
            sections[name]: _given(name, word.partition("(")[0], digest(word))
            for name, word in told.items()
            if name in sections
        }
    )


def tell_algorithm(algorithm: Algorithm) -> Told:
    """By name where that makes an equal one, else as an object that must be given."""
    kind = type(algorithm)
    names = [name for name, method in ALGORITHMS.items() if method.make is kind and not method.presets]
    name = next(iter(names), None) or object_path(kind)
    options = _options(algorithm)
    if name and options is not None:
        told = {"name": name, **options}
        try:
            if load_config({"algorithm": told}).outline() == algorithm:
                return told
        except FedamdError:
            pass  # a class that cannot be made of what its fields say
    words = re.sub(r" at 0x[0-9a-f]+", "", repr(algorithm))
    return _given("algorithm", kind.__name__, digest(f"{kind.__module__} {words}"))


def tell_model(model: nn.Module) -> Told:
    """By its layers and the weights it starts from."""
    weights = [f"{name} {tensor_digest(value)}" for name, value in model.state_dict().items()]
    trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return _given("model", type(model).__name__, digest(repr(model), *weights, *trainable))


def tell_dataset(dataset: Dataset) -> Told:
    """By its samples."""
    tensors = [dataset.inputs, dataset.targets, dataset.test_inputs, dataset.test_targets]
    if (tests := dataset.client_tests) is not None:
        tensors += [tests.inputs, tests.targets, tests.owners]
    told = _given("dataset", dataset.name, digest(*map(tensor_digest, tensors)))
    return told | {"samples": len(dataset.inputs), "classes": dataset.classes}


def object_path(thing: Callable[..., Any]) -> str | None:
    """The "package.module:object" under which it would be found again; None where it would not."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    found: Any = sys.modules.get(module or "") if module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is thing else None


def _given(argument: str, name: str, fingerprint: str) -> Told:
    words = f"an object from Python: give it again as {argument}=… to repeat or resume this run"
    return {"name": name, "given": words, "fingerprint": fingerprint[:12]}


def _options(algorithm: Algorithm) -> Told | None:
    """The hyper-parameters as numbers, words and names of functions; None where one of them is something else."""
    if not dataclasses.is_dataclass(algorithm):
        return None
    values = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm) if field.init}
    told: Told = {}
    for name, value in values.items():
        written = object_path(value) if callable(value) else value
        if value is not None and not _plain(written):
            return None
        if value is not None:
            told[name] = written
    return told


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return isinstance(value, bool | int | float | str)
