"""The settings of a federation: the section [federation] beside the sections every run has.

Flower carries a run's settings to server and clients as flat words (`algorithm.eta_l = 0.03`); `flatten` makes them so
and `read_settings` reads them back.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedamd.errors import FedamdError
from fedamd.registry import suggestion
from fedamd.runs.config import LISTS, Config, load_config

Flat = dict[str, bool | int | float | str]
_SECTION = "federation."


class FederationSettings(BaseModel):
    """How a federation deals with clients that are slow, silent or gone."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)  # 600 seconds are 600.0

    task: str = Field(
        default="fedamd.flower.app.task:from_config", description="package.module:function that gives the FederatedTask"
    )
    folder: str = Field(default="runs/federation", description="where the server keeps the records of the run")
    deadline: float = Field(default=600.0, gt=0, description="seconds the clients have to answer an exchange")
    close_at: float = Field(
        default=1, gt=0, le=1, description="share of accepted replies at which an exchange closes; 1 waits for all"
    )
    min_replies: int = Field(default=1, ge=1, description="the quorum: accepted replies an exchange must have")
    attempts: int = Field(default=3, ge=1, description="how often an exchange below its quorum is tried in all")
    retry_after: float = Field(default=10, ge=0, description="seconds between two attempts")
    start_clients: int | None = Field(default=None, ge=1, description="connected clients to wait for (default: all)")
    start_wait: float = Field(default=120, ge=0, description="seconds to wait for them, then to go without")
    renew: bool = Field(
        default=True, description="when a client has lost what it held, have all clients compute it anew"
    )
    wire_dtype: Literal["", "float16", "bfloat16"] = Field(
        default="", description="type in which model-sized vectors travel (default: the run's own)"
    )
    metrics_port: int = Field(
        default=0, ge=0, le=65535, description="port of 127.0.0.1 for the server's Prometheus page (default: none)"
    )
    keys: str = Field(default="", description="file of the clients' public keys, a line '<client> <OpenSSH key>' each")


def flatten(raw: Mapping[str, Any], section: str = "") -> Flat:
    """Nested tables as dotted keys; only what Flower can carry."""
    flat: Flat = {}
    for key, value in raw.items():
        name = f"{section}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        elif isinstance(value, bool | int | float | str):
            flat[name] = value
        elif name in LISTS and all(isinstance(word, str) for word in value):
            flat[name] = ",".join(value)
        else:
            raise FedamdError(
                f'{name}: a federation\'s settings are numbers and words; write {value!r} as a word, as in "0,0,1"'
            )
    return flat


def read_settings(flat: Mapping[str, Any]) -> tuple[Config, FederationSettings]:
    """The run's config and the federation's settings; what only makes sense in a simulation is refused."""
    ours = {name.removeprefix(_SECTION): value for name, value in flat.items() if name.startswith(_SECTION)}
    theirs = {name: value for name, value in flat.items() if not name.startswith(_SECTION)}
    try:
        settings = FederationSettings.model_validate(ours)
    except ValidationError as error:
        raise FedamdError(_sentence(error)) from None
    config = load_config({}, {"checkpoint_every": 1} | theirs)
    _refuse_simulation(config)
    return config, settings


def _refuse_simulation(config: Config) -> None:
    if config.failure_rate:
        raise FedamdError(
            "failure_rate simulates clients that fail; in a federation they fail by themselves: leave it out"
        )
    if config.devices is not None:
        raise FedamdError("devices simulates the clients' speeds; in a federation they have their own: leave it out")
    if config.client_store != "memory":
        raise FedamdError("client_store simulates the clients' disks; in a federation each has its own: leave it out")
    if config.engine not in ("auto", "loop"):
        raise FedamdError(f"engine = {config.engine} simulates clients; a federation's are real: leave it out")
    if config.checkpoint_every != 1:
        raise FedamdError(
            "checkpoint_every must be 1 in a federation: clients keep the version of the last checkpoint, no older one"
        )


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        allowed = list(FederationSettings.model_fields)
        return f"{_SECTION}{key}: unknown key{suggestion(key, allowed)}; allowed are {', '.join(allowed)}"
    return f"{_SECTION}{key}: {first['msg'].removeprefix('Input ')}, not {first['input']!r}"
