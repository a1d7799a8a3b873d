"""The array types that kernels take and give."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers", "Mask", "Seeds"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Seeds = NDArray[np.uint64]
