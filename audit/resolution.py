"""To which step released values were rounded, as far as the file shows it."""

from collections.abc import Iterable

import numpy as np

from ..mechanisms import Array

_EXACT = 15  # significant digits from which a decimal number holds all that float64 does


def resolution_of(values: Array, written: Iterable[str] | None = None) -> float:
    """The step to which values are rounded; 0 where none is visible.

    Two roundings show: values that single precision (or a coarser kind of array) holds exactly, and decimal numbers
    with few digits, be it a fixed number of decimals or of significant digits (then steps differ, and this is the
    largest). A file of nothing but zeros is one of whole numbers, or of as many decimals as it shows.

    Args:
        values: Finite numbers, of the kind that the file held.
        written: The same as decimal text; None takes the shortest text that gives each value.
    """
    if values.dtype.kind in "iu":
        return 1.0
    return max(_binary(values), _decimal(values, written))


def _binary(values: Array) -> float:
    """Distance of the largest value to the next number of the coarsest kind that fits."""
    largest = np.abs(values).max()
    if largest == 0.0:
        return 0.0
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore", under="ignore"):
            fits = np.array_equal(values.astype(kind).astype(np.float64), values.astype(np.float64))
        if fits:
            return float(np.spacing(kind(largest)))
    return 0.0


def _decimal(values: Array, written: Iterable[str] | None) -> float:
    flat = values.reshape(-1)
    texts = (repr(float(value)).removesuffix(".0") for value in flat) if written is None else written
    shown = np.array([_digits(text) for text in texts])
    significant, last = int(shown[:, 0].max()), shown[:, 1]
    if significant >= _EXACT:
        return 0.0
    finest = float(10.0 ** float(last.min()))
    # Of numbers with a fixed number of decimals nine in ten show all of them, even where a trailing 0 is left out.
    if np.mean(last == last.min()) >= 0.5:
        return finest
    size = np.abs(flat.astype(np.float64))
    first = np.floor(np.log10(size, out=np.full_like(size, -np.inf), where=size > 0))
    return float(np.maximum(finest, 10.0 ** (first - significant + 1)).max())


def _digits(text: str) -> tuple[int, int]:
    """Significant digits of a decimal number, and the power of ten that the last of them counts."""
    mantissa, _, exponent = text.strip().lstrip("+-").lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    return len((whole + decimals).lstrip("0")), int(exponent or 0) - len(decimals)
