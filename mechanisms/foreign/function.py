"""Any function ``release(x, y, points, paths, rng)`` as a model: all that is known of it is what it returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from ..base import Sampler
from ..data import Dataset
from ..errors import InputError
from .deployed import Reading

ReleaseFunction = Callable[[Array, Array, Array, int, np.random.Generator], ArrayLike]


@dataclass(frozen=True, eq=False)
class _FunctionSampler:
    """One call a release, each with a generator of its own."""

    function: ReleaseFunction
    data: Dataset
    points: Array
    jitter: float = 0.0

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        wanted = (paths, len(self.points))
        drawn = np.empty((releases, *wanted))
        # Copies: a function that writes into its arguments must not change the next release.
        for one in drawn:
            x, y, at = (array.copy() for array in (self.data.covariates, self.data.responses, self.points))
            try:
                found = np.asarray(self.function(x, y, at, paths, rng.spawn(1)[0]))
            except InputError:
                raise
            except Exception as error:  # its text may quote private data
                raise InputError(f"the release function failed ({type(error).__name__})") from error
            if found.dtype.kind not in "fiu":
                raise InputError(f"the release function returned {found.dtype}: it must return real numbers")
            if found.shape != wanted:
                raise InputError(
                    f"the release function returned an array of shape {found.shape}: it must be (paths, points), here "
                    f"{wanted}"
                )
            one[...] = found
        return drawn


@dataclass(frozen=True, eq=False)
class FunctionModel:
    """A release function ``release(x (n, d), y (n,), points (t, d), paths, rng) -> (paths, t)``.

    All its randomness must come from the generator that it is given: then an audit repeats, and no two releases share
    a seed.
    """

    function: ReleaseFunction
    name: str = "callable"

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Calls the function, once a release."""
        return _FunctionSampler(self.function, data, points)


def read(thing: Any) -> Reading:
    """A release function as it is; the configuration says everything else.

    Raises:
        InputError: It cannot be called.
    """
    if not callable(thing):
        raise InputError(f"is a {type(thing).__name__}, not a function release(x, y, points, paths, rng)")
    return Reading(model=FunctionModel(thing))
