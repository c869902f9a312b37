"""What a released file says: is it of the stated mechanism and these data, and whom does it betray."""

from dataclasses import dataclass

import numpy as np

from ..mechanisms import Dataset, InputError, MadeOfPosterior, Paths
from ..mechanisms.foreign import stated_by
from ..mechanisms.membership import membership
from .build import Subject
from .fidelity import Fidelity
from .file_fidelity import StatedLaw, file_fidelity, stated_law
from .membership import MembershipEvidence, choose_others, membership_evidence
from .released import Released


@dataclass(frozen=True, eq=False)
class ReleasedEvidence:
    """A release that was seen.

    Attributes:
        sha256: Of the file; None when the paths did not come from one.
        paths: L.
        points: Points of a path.
        resolution: Step to which values are rounded; 0 where none is visible.
        membership: What it says about every record.
    """

    sha256: str | None
    paths: int
    points: int
    resolution: float
    membership: MembershipEvidence


@dataclass(frozen=True, eq=False)
class FileAudit:
    """A released file beside the law that is stated of it.

    Attributes:
        data: The private records.
        released: The file.
        stated: Its law.
    """

    data: Dataset
    released: Released
    stated: StatedLaw

    def fidelity(self, significance: float) -> Fidelity:
        """Whether the file is a release of the stated mechanism for these data."""
        return file_fidelity(self.stated, self.released, significance=significance)

    def evidence(self, subject: Subject, replacements: Dataset, *, seed: int) -> ReleasedEvidence:
        """What the file says about every record."""
        others, population = choose_others(subject.population, replacements, seed=seed)
        pairs = membership(self.stated.recipe, self.data, others, self.stated.whitening)
        white = self.stated.whitening.white(self.released.paths)
        found = membership_evidence(pairs, white, population=population, seed=seed)
        count, points = self.released.paths.shape
        return ReleasedEvidence(self.released.sha256, count, points, self.released.resolution, found)


def open_file(subject: Subject) -> FileAudit | None:
    """The released file of an audit; None where there is none.

    Raises:
        InputError: The mechanism has no law of whole paths, or the file is not what the mechanism releases.
    """
    released, data = subject.released, subject.data
    if released is None:
        return None
    if data is None:
        raise InputError("release.released needs the private data that were released from: add a section [data]")
    return FileAudit(data, released, stated_law(_recipe(subject, released), data, released))


def _recipe(subject: Subject, released: Released) -> Paths:
    stated, release = stated_by(subject.mechanism), subject.mechanism.release
    if not (stated is not None and isinstance(stated, MadeOfPosterior)):
        raise InputError(
            f"release.released cannot be audited for mechanism {subject.mechanism.name}: use posterior, noised, "
            "predictive, centred, or a deployed model that is stated to be one of them"
        )
    recipe: Paths = stated.path_recipe
    listed = np.empty(0) if release.points is None else release.points
    if not np.array_equal(listed, released.points) or release.paths != len(released.paths):
        raise InputError(
            f"the file holds {len(released.paths)} path(s) at {len(released.points)} points: the mechanism must "
            "release as many at the same points"
        )
    return recipe
