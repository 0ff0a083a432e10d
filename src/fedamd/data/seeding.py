"""One way from a seed to a numpy generator, the same on every machine and for every numpy version's default."""

import numpy as np

from fedamd.errors import FedamdError


def generator(seed: int) -> np.random.Generator:
    """An independent stream of random numbers; the bit generator is named, so a new numpy default changes nothing."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise FedamdError(f"a seed is a whole number, zero or more; got {seed!r}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
