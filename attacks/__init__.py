"""What an adversary does: populations, shadow datasets, scores, one file an attack, and the engine that runs them."""

from .attack import Attack, FeatureAttack, Fitted, Learner, Releases, Scorer, Shadows
from .core import CoreAttack, CoreScores, core_chunks, core_seconds
from .engine import Engine, Serial, chunks_of, open_engine
from .lira import Lira
from .mixture import OptimalMixture, mixture_log_ratio
from .population import (
    PopulationAttack,
    PopulationScores,
    count_shadow_chunks,
    population_seconds,
    train_population,
    trial_chunks,
)
from .populations import Draw, Jump, Pool, Population
from .scores import Scores
from .store import Keeping, Store, write_private
from .whole_path import WholePath

__all__ = [
    "Attack",
    "CoreAttack",
    "CoreScores",
    "Draw",
    "Engine",
    "FeatureAttack",
    "Fitted",
    "Jump",
    "Keeping",
    "Learner",
    "Lira",
    "OptimalMixture",
    "Pool",
    "Population",
    "PopulationAttack",
    "PopulationScores",
    "Releases",
    "Scorer",
    "Scores",
    "Serial",
    "Shadows",
    "Store",
    "WholePath",
    "chunks_of",
    "core_chunks",
    "core_seconds",
    "count_shadow_chunks",
    "mixture_log_ratio",
    "open_engine",
    "population_seconds",
    "train_population",
    "trial_chunks",
    "write_private",
]
