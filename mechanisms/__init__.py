"""What is released: datasets, kernels, posteriors, the mechanisms and the exact privacy of a dataset pair."""

from .arrays import Array, frozen_array
from .base import Contrast, DeclaresGaussianDP, HasDominatingPair, HasPathLaw, Mechanism, PostProcessesPaths, Sampler
from .centred import Centred
from .contour import log_profile
from .data import Dataset, Domain, Record
from .errors import InputError, NumericalError, RecordError, brief, shortened
from .exact_posterior import ExactPosterior
from .gaussian import MadeOfPosterior, Paths
from .gaussian_query import GaussianQuery
from .kernels import Kernel, diagonal, exponential, matern32, matern52, rbf
from .leave_one_out import leave_one_out_laws
from .moments import Blocks, Moments, extended_moments, stacked_blocks
from .noised import Noised
from .ornstein_uhlenbeck import Filtered, filtered
from .pair import PairLaw, QuadraticForm
from .pair_sets import AnyKernel, Extremes, OneFunction, OrnsteinUhlenbeck, PairSet
from .path_law import PathLaw, Whitening
from .per_row import PerRowNoise
from .posterior import Posterior, condition
from .predictive import Predictive
from .profile import check_delta, check_paths, exact_epsilon, pair_delta, pair_epsilon, solve_epsilon
from .regimes import Bounded, Diagonal, Exponential1D, Regime, Rkhs, Sensitivity, Separated
from .release import Release, Tuning
from .renyi import RenyiCurve, composed, covariance_leakage_variances, gaussian_divergence
from .thompson import Thompson
from .tradeoff import TradeOff, smallest_fnr, trade_off_at

# Exactly these classes, not subclasses of them, are known to be what they state.
OWN = (ExactPosterior, Noised, Predictive, Centred, PerRowNoise, Thompson, GaussianQuery)

__all__ = [
    "OWN",
    "AnyKernel",
    "Array",
    "Blocks",
    "Bounded",
    "Centred",
    "Contrast",
    "Dataset",
    "DeclaresGaussianDP",
    "Diagonal",
    "Domain",
    "ExactPosterior",
    "Exponential1D",
    "Extremes",
    "Filtered",
    "GaussianQuery",
    "HasDominatingPair",
    "HasPathLaw",
    "InputError",
    "Kernel",
    "MadeOfPosterior",
    "Mechanism",
    "Moments",
    "Noised",
    "NumericalError",
    "OneFunction",
    "OrnsteinUhlenbeck",
    "PairLaw",
    "PairSet",
    "PathLaw",
    "Paths",
    "PerRowNoise",
    "PostProcessesPaths",
    "Posterior",
    "Predictive",
    "QuadraticForm",
    "Record",
    "RecordError",
    "Regime",
    "Release",
    "RenyiCurve",
    "Rkhs",
    "Sampler",
    "Sensitivity",
    "Separated",
    "Thompson",
    "TradeOff",
    "Tuning",
    "Whitening",
    "brief",
    "check_delta",
    "check_paths",
    "composed",
    "condition",
    "covariance_leakage_variances",
    "diagonal",
    "exact_epsilon",
    "exponential",
    "extended_moments",
    "filtered",
    "frozen_array",
    "gaussian_divergence",
    "leave_one_out_laws",
    "log_profile",
    "matern32",
    "matern52",
    "pair_delta",
    "pair_epsilon",
    "rbf",
    "shortened",
    "smallest_fnr",
    "solve_epsilon",
    "stacked_blocks",
    "trade_off_at",
]
