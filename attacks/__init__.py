"""What an adversary does: populations, shadow datasets, scores, one file an attack, and the engine that runs them."""

from .core import CoreAttack, CoreScores, core_chunks, core_seconds
from .engine import Engine, Serial, chunks_of, open_engine
from .mixture import mixture_log_ratio
from .population import (
    PopulationAttack,
    PopulationScores,
    population_seconds,
    shadow_chunks,
    train_population,
    trial_chunks,
)
from .populations import Jump, Pool, Population
from .scores import Scores

__all__ = [
    "CoreAttack",
    "CoreScores",
    "Engine",
    "Jump",
    "Pool",
    "Population",
    "PopulationAttack",
    "PopulationScores",
    "Scores",
    "Serial",
    "chunks_of",
    "core_chunks",
    "core_seconds",
    "mixture_log_ratio",
    "open_engine",
    "population_seconds",
    "shadow_chunks",
    "train_population",
    "trial_chunks",
]
