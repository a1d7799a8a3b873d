"""Random numbers for kernels (splitmix64; Steele, Lea and Flood 2014).

The caller owns the 64-bit state.
"""

import numpy as np

from microcell.kernels._jit import inner_kernel
from microcell.kernels.arrays import Seeds

__all__ = ["draw", "pick"]


@inner_kernel
def draw(state: Seeds) -> float:
    """Return a number in [0, 1) and advance the state (OUT)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner_kernel
def pick(state: Seeds, count: int) -> int:
    """Return an integer from 0 to ``count - 1`` and advance the state (OUT)."""
    return int(draw(state) * count)
