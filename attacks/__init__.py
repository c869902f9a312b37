"""What an adversary does: populations, shadow datasets, scores, one file an attack, and the engine that runs them."""

from .core import CoreScores, attack_core, core_chunks, core_seconds
from .engine import Engine, Serial, chunks_of, open_engine
from .mixture import mixture_log_ratio
from .population import PopulationScores, attack_population, population_chunks, population_seconds
from .populations import Jump, Pool, Population
from .scores import Scores

__all__ = [
    "CoreScores",
    "Engine",
    "Jump",
    "Pool",
    "Population",
    "PopulationScores",
    "Scores",
    "Serial",
    "attack_core",
    "attack_population",
    "chunks_of",
    "core_chunks",
    "core_seconds",
    "mixture_log_ratio",
    "open_engine",
    "population_chunks",
    "population_seconds",
]
