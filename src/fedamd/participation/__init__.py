"""Who takes part in a round: client samplers by name, availability over time, and devices with speeds of their own.

A sampler is a frozen dataclass whose options a config may set, with two methods:

cohort(t, seed, count, sizes)   𝒜_t: the clients the server asks in round t
reachable(t, seed, client)      whether a client can answer at all in round t, whoever asks it

What a sampler draws is addressed by (seed, round, client) as everything else, so every engine sees the same cohorts and
a resumed run continues exactly.

samplers.py       uniform (the paper), by samples, cyclic
availability.py   clients that come and go: a Markov chain, a trace file
devices.py        speeds and bandwidths: simulated seconds, and who misses a deadline
"""

from collections.abc import Callable

from fedamd.participation.availability import MarkovSampler, TraceSampler
from fedamd.participation.devices import Devices
from fedamd.participation.samplers import CyclicSampler, Sampler, UniformSampler, WeightedSampler
from fedamd.registry import Registry

__all__ = [
    "SAMPLERS",
    "CyclicSampler",
    "Devices",
    "MarkovSampler",
    "Sampler",
    "TraceSampler",
    "UniformSampler",
    "WeightedSampler",
]

SAMPLERS: Registry[Callable[..., Sampler]] = Registry(
    "sampler",
    {
        "uniform": UniformSampler,
        "weighted": WeightedSampler,
        "cyclic": CyclicSampler,
        "markov": MarkovSampler,
        "trace": TraceSampler,
    },
)
