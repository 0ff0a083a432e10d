"""Short names that tell runs apart: the method, and the settings in which runs of one method differ."""

from collections.abc import Callable, Mapping, Sequence
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
        "target",
        "target_accuracy",
    }
)


SCHEDULED, OPTION = "schedules.", "algorithm."


def labels(configs: Sequence["Config"]) -> list[str]:
    """The name of each; configs that differ at most in their seed (or in how they are executed) share one.

    >>> labels([load_config({"algorithm": {"p": 0.5}}), load_config({"algorithm": {"p": 0.9}})])
    ['fedamd p=0.5', 'fedamd p=0.9']
    """
    settings = [_flat(config) for config in configs]
    rivals = [[one for one in settings if _method(one) == _method(own)] for own in settings]
    brief = [_label(own, others, _in_brief) for own, others in zip(settings, rivals, strict=True)]
    if all(settings[brief.index(name)] == own for name, own in zip(brief, settings, strict=True)):
        return brief
    return [_label(own, others, _in_full) for own, others in zip(settings, rivals, strict=True)]


def _label(own: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]], scheduled: "Telling") -> str:
    keys = sorted({key for rival in rivals for key in rival})
    differing = [key for key in keys if any(rival.get(key) != own.get(key) for rival in rivals)]
    # what has a schedule is told with it, once
    told = dict.fromkeys(twin if (twin := key.replace(OPTION, SCHEDULED)) in own else key for key in differing)
    return " ".join([_method(own), *(_detail(key, own, scheduled) for key in told if key in own)])


def _detail(key: str, own: Mapping[str, Any], scheduled: "Telling") -> str:
    """A setting in few words: p=0.5, partition=iid, eta_l cosine 0.1→0.01."""
    if key.startswith(SCHEDULED):
        return scheduled(key.removeprefix(SCHEDULED), own[key], own)
    section, _, last = key.rpartition(".")
    return f"{section if last == 'name' else last}={own[key]}"


def _in_brief(name: str, schedule: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """From the first value after the warm-up to that of the last round; a function of one's own by its name."""
    from fedamd.algorithms.over_rounds import ROUND_SCHEDULES

    kind, options = schedule["name"], {key: value for key, value in schedule.items() if key != "name"}
    base, rounds = own.get(f"{OPTION}{name}"), own["rounds"]
    if kind not in ROUND_SCHEDULES or not isinstance(base, int | float):
        return f"{name} {kind.rpartition(':')[2]}"
    factor = ROUND_SCHEDULES[kind](**options)
    values = [base * factor(t) for t in (min(factor.warm_up, rounds - 1), rounds - 1)]
    return f"{name} {kind} {'→'.join(f'{value:.3g}' for value in values)}"


def _in_full(name: str, schedule: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Where two schedules begin and end alike."""
    options = ", ".join(f"{key}={value}" for key, value in schedule.items() if key != "name")
    return f"{name}={own.get(OPTION + name)} {schedule['name']}({options})"


Telling = Callable[[str, Mapping[str, Any], Mapping[str, Any]], str]


def _method(settings: Mapping[str, Any]) -> str:
    name: str = settings["algorithm.name"]
    return name


def _flat(config: "Config") -> dict[str, Any]:
    """What the config computes, as dotted keys without the seed."""
    flat: dict[str, Any] = {}
    for key, value in config.plain().items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return {key: value for key, value in flat.items() if key != "seed" and key not in EXECUTION}
