"""Lower bounds on epsilon from scores, one file a method; only confidence bounds may refute a claim."""

from .bound import EpsilonBound, Estimator, Kind
from .clopper_pearson import clopper_pearson_bound, largest_provable_epsilon
from .estimates import gaussian_dp_estimate, jeffreys_estimate, joint_beta_estimate
from .model_based import model_based_bound
from .one_run import (
    Design,
    FixedCount,
    Guesses,
    IndependentCoins,
    SharedCoins,
    one_run_bound,
    one_run_p_value,
    one_run_provable,
)
from .sequential import Sequential, sequential_bound, sequential_provable
from .thresholds import Bonferroni, Explicit, Split, Tally, Threshold, epsilon_from_rates

__all__ = [
    "Bonferroni",
    "Design",
    "EpsilonBound",
    "Estimator",
    "Explicit",
    "FixedCount",
    "Guesses",
    "IndependentCoins",
    "Kind",
    "Sequential",
    "SharedCoins",
    "Split",
    "Tally",
    "Threshold",
    "clopper_pearson_bound",
    "epsilon_from_rates",
    "gaussian_dp_estimate",
    "jeffreys_estimate",
    "joint_beta_estimate",
    "largest_provable_epsilon",
    "model_based_bound",
    "one_run_bound",
    "one_run_p_value",
    "one_run_provable",
    "sequential_bound",
    "sequential_provable",
]
