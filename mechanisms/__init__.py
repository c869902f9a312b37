"""What is released: datasets, kernels, posteriors, the mechanisms and the exact privacy of a dataset pair."""

from .arrays import Array, frozen_array
from .base import Contrast, Mechanism, Sampler
from .centred import Centred
from .data import Dataset, Domain, Record
from .errors import InputError, NumericalError, RecordError, shortened
from .exact_posterior import ExactPosterior
from .kernels import Kernel, exponential, matern32, matern52, rbf
from .moments import Blocks, Moments, extended_moments, stacked_blocks
from .noised import Noised
from .pair import PairLaw
from .posterior import Posterior, condition
from .profile import check_delta, exact_epsilon, pair_delta, pair_epsilon
from .regimes import Bounded, Exponential1D, Regime, Sensitivity
from .release import Release
from .renyi import RenyiCurve

# Exactly these classes, not subclasses of them, are known to be what they state.
OWN = (ExactPosterior, Noised, Centred)

__all__ = [
    "OWN",
    "Array",
    "Blocks",
    "Bounded",
    "Centred",
    "Contrast",
    "Dataset",
    "Domain",
    "ExactPosterior",
    "Exponential1D",
    "InputError",
    "Kernel",
    "Mechanism",
    "Moments",
    "Noised",
    "NumericalError",
    "PairLaw",
    "Posterior",
    "Record",
    "RecordError",
    "Regime",
    "Release",
    "RenyiCurve",
    "Sampler",
    "Sensitivity",
    "check_delta",
    "condition",
    "exact_epsilon",
    "exponential",
    "extended_moments",
    "frozen_array",
    "matern32",
    "matern52",
    "pair_delta",
    "pair_epsilon",
    "rbf",
    "shortened",
    "stacked_blocks",
]
