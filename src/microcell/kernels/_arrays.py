"""The array types that kernels take and give."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers", "Mask", "Seeds", "Singles"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Seeds = NDArray[np.uint64]
Singles = NDArray[np.float32]
