"""What an adversary does: scores of releases that contain the record and of releases that do not."""

from .core import attack_core
from .scores import Scores

__all__ = ["Scores", "attack_core"]
