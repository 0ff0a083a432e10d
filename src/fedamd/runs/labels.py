"""Short names that tell runs apart: the method, and the settings in which runs of one method differ."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line names runs, and must not wait for PyTorch where it has nothing to run
    from fedamd.runs.config import Config

EXECUTION = frozenset(  # how a run is executed and what is reported of it, not what it computes
    {
        "engine",
        "oracle",
        "device",
        "micro_batch",
        "client_store",
        "checkpoint_every",
        "evaluate_every",
        "evaluate_clients_every",
        "metrics",
        "stop",
        "callbacks",
        "target_accuracy",
    }
)


def labels(configs: Sequence["Config"]) -> list[str]:
    """The name of each; configs that differ at most in their seed (or in how they are executed) share one.

    >>> labels([load_config({"algorithm": {"p": 0.5}}), load_config({"algorithm": {"p": 0.9}})])
    ['fedamd p=0.5', 'fedamd p=0.9']
    """
    settings = [_flat(config) for config in configs]
    return [_label(own, [one for one in settings if _method(one) == _method(own)]) for own in settings]


def _label(own: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> str:
    keys = sorted({key for rival in rivals for key in rival})
    differing = [key for key in keys if any(rival.get(key) != own.get(key) for rival in rivals)]
    details = [f"{key.removeprefix('algorithm.')}={own[key]}" for key in differing if key in own]
    return " ".join([_method(own), *details])


def _method(settings: Mapping[str, Any]) -> str:
    name: str = settings["algorithm.name"]
    return name


def _flat(config: "Config") -> dict[str, Any]:
    """What the config computes, as dotted keys without the seed."""
    flat: dict[str, Any] = {}
    for key, value in config.plain().items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return {key: value for key, value in flat.items() if key != "seed" and key not in EXECUTION}
