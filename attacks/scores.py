"""The outcome of an attack: one score a simulated release."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..mechanisms import Array, InputError


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores, HIGHER FOR MEMBERS, of releases with the record (`member`) and without it (`nonmember`).

    Each entry must come from an independent release; the bounds of the audit rest on that.

    Raises:
        InputError: A side is empty or holds NaN (a NaN score is a failed attack, not a weak one).
    """

    member: Array
    nonmember: Array

    def __post_init__(self) -> None:
        for name in ("member", "nonmember"):
            scores = np.asarray(getattr(self, name), dtype=np.float64).copy()
            if scores.ndim != 1 or len(scores) == 0:
                raise InputError(f"{name} scores must be a non-empty list, got shape {scores.shape}")
            if np.isnan(scores).any():
                raise InputError(f"{int(np.isnan(scores).sum())} {name} scores are NaN: the attack failed on them")
            scores.setflags(write=False)
            object.__setattr__(self, name, scores)

    @classmethod
    def joined(cls, parts: "Sequence[Scores]") -> "Scores":
        """Scores of consecutive ranges of trials as one."""
        return cls(np.concatenate([part.member for part in parts]), np.concatenate([part.nonmember for part in parts]))
