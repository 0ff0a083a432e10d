"""What a config says of how a run is steered: who takes part, on which devices, and which hyper-parameters change.

Each part is built here from the config's words; all of them have a default that is the paper's.
"""

from fedamd.algorithms.over_rounds import ROUND_SCHEDULES, Factor
from fedamd.errors import FedamdError
from fedamd.participation import SAMPLERS, Devices, Sampler
from fedamd.registry import import_object
from fedamd.runs.config import Config, Section
from fedamd.runs.making import make


def build_sampler(config: Config) -> Sampler:
    """The client sampler with its options."""
    made = make(SAMPLERS.find(config.sampler.name, "sampler.name"), config.sampler.options, "sampler")
    if not isinstance(made, Sampler):
        raise FedamdError(f"sampler.name: {config.sampler.name} made a {type(made).__name__}, not a Sampler")
    return made


def build_schedules(config: Config) -> dict[str, Factor]:
    """The schedule of every hyper-parameter that has one."""
    return {name: _schedule(name, section) for name, section in config.schedules.items()}


def build_devices(config: Config) -> Devices | None:
    """The clients' devices, where time is simulated."""
    if config.devices is None:
        if config.deadline is not None:
            raise FedamdError("deadline is in simulated seconds, which need devices: set devices = {} or name a file")
        return None
    return Devices.of(config.devices, config.clients, config.seed)


def _schedule(name: str, section: Section) -> Factor:
    where = f"schedules.{name}"
    if ":" not in section.name:
        return make(ROUND_SCHEDULES.find(section.name, where), section.options, where)
    own = import_object(section.name, where)
    if not callable(own):
        raise FedamdError(f"{where}: {section.name} is a {type(own).__name__}, not a function of the round")
    if section.options:
        raise FedamdError(f"{where}: {section.name} is a function of the round alone and takes no options")
    factor: Factor = own
    return factor
