"""The one array type of the package and the checks every array passes on its way in."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

Array = NDArray[np.float64]


def frozen_array(values: ArrayLike, *, ndim: int, name: str) -> Array:
    """A read-only float64 copy of `values`, in C order.

    Args:
        values: Numbers; integers, float32, Fortran order and pandas columns are all accepted.
        ndim: Number of dimensions the result must have.
        name: What the array is called in the error message.

    Raises:
        InputError: `values` are not numbers, have another number of dimensions, or are not all finite.
    """
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{name} must be finite; row {row} (0-based) is not: remove or repair it")
    array.setflags(write=False)
    return array
