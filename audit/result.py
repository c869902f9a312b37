"""What an audit found, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..mechanisms import Array, Dataset, Mechanism
from .accountant import Certificate
from .bounds import EpsilonBound
from .exposure import Exposure
from .fidelity import Fidelity
from .file_audit import ReleasedEvidence
from .ledger import Ledger
from .outlook import Outlook
from .roc import Roc, TprAtFpr
from .verdict import Verdict
from .worst import WorstPair


@dataclass(frozen=True, eq=False)
class AttackResult:
    """One attack on one record.

    Attributes:
        adversary: Who attacked: "core" knows every other record, all others only where they come from.
        record: 0-based row; None for the target of the stress test.
        trials: Simulated releases under each hypothesis.
        shadows: Shadow datasets a hypothesis; None for an adversary who trains none.
        kept: Bytes kept of the shadows; None without shadows.
        notes: What the attack says about itself: mode, floors, approximations.
        curve: All scores as a ROC curve.
        auc: Area under it.
        tpr_at_fpr: Read off it at fixed false-positive rates.
        epsilon_lower: Lower confidence bound on epsilon, at this attack's share of the significance.
        epsilon_exact: Exact epsilon of the attacked pair; None for an adversary who attacks no single pair.
        largest_provable_epsilon: The most this design could have shown.
        model_based: What the scores show if releases follow the stated law: theory against draws, no ground of a
            verdict. None where the score is not the exact log-likelihood ratio.
        estimates: Values that promise nothing, for comparison.
    """

    adversary: str
    record: int | None
    trials: int
    shadows: int | None
    kept: int | None
    notes: tuple[str, ...]
    curve: Roc
    auc: float
    tpr_at_fpr: tuple[TprAtFpr, ...]
    epsilon_lower: EpsilonBound
    epsilon_exact: float | None
    largest_provable_epsilon: float
    model_based: EpsilonBound | None
    estimates: tuple[EpsilonBound, ...]


@dataclass(frozen=True, eq=False)
class AuditResult:
    """Everything an audit found. Holds no private record: rows are named by number.

    Attributes:
        verdict: The outcome.
        reason: Why, in a sentence.
        decided_by: The test that refuted the claim, and
        decided_at: its corrected significance (0 for a proof without sampling); None when nothing was refuted.
        mechanism: What was audited, with its public parameters.
        regime: Premises of the certificate.
        assumptions: Those of them that the data cannot show.
        certificate: The smallest upper bound on the mechanism's epsilon.
        certificates: All of them.
        claimed_epsilon: What was put to the test.
        worst_pair: The worst pair of datasets found in the public domain: a lower bound on the mechanism's epsilon
            without sampling error; None when none was searched for.
        records: Number of private records; None for the stress test, which has none.
        exposure: Exact epsilon of every record; None when there are no records, or nothing is exact.
        replacements: The public records that took a record's place.
        population: What the adversaries knew who train shadows; None when there were none.
        attacks: One entry an attacked record.
        fidelity: Whether releases are those of the stated mechanism; None when that was not tested.
        delta: The delta of every epsilon here.
        ledger: Total probability of a wrong verdict, and which test spent what of it.
        seed: All randomness came from it.
        jitter: Largest variance that had to be added to factorise a covariance; usually 0.
        sha256: Of the data file, or None.
        clipped: Responses that were clipped.
        timings: Seconds a step took.
        engine: What ran the attacks, "serial" or "ray", and on how many workers; it changed no number.
        exposure_everywhere: Exact epsilon of every record if the whole function were released; None where listed points
            are not what is released of it, or float64 cannot say it.
        released: What a released file says about the records; None without one.
        outlook: More paths, the whole trade-off of the worst pairs, what the trials could refute; None if not computed.
    """

    verdict: Verdict
    reason: str
    decided_by: str | None
    decided_at: float | None
    mechanism: Mechanism
    regime: str
    assumptions: tuple[str, ...]
    certificate: Certificate
    certificates: tuple[Certificate, ...]
    claimed_epsilon: float
    worst_pair: WorstPair | None
    records: int | None
    exposure: Exposure | None
    replacements: Dataset
    population: str | None
    attacks: tuple[AttackResult, ...]
    fidelity: Fidelity | None
    delta: float
    ledger: Ledger
    seed: int
    jitter: float
    sha256: str | None
    clipped: int
    timings: Mapping[str, float]
    engine: tuple[str, int]
    exposure_everywhere: Exposure | None = None
    released: ReleasedEvidence | None = None
    outlook: Outlook | None = None

    @property
    def significance(self) -> float:
        """Total probability of a wrong verdict."""
        return self.ledger.significance

    @property
    def worst_record(self) -> int | None:
        """0-based row of the most exposed record; None when there are no records."""
        return None if self.exposure is None else int(self.exposure.epsilon.argmax())

    @property
    def worst_epsilon(self) -> float | None:
        """Largest exact epsilon of a record; None when there are no records."""
        return None if self.exposure is None else float(self.exposure.epsilon.max())

    @property
    def worst_everywhere(self) -> float | None:
        """Largest exact epsilon of a record if the whole function were released."""
        return None if self.exposure_everywhere is None else float(self.exposure_everywhere.epsilon.max())

    @property
    def epsilon_exact(self) -> Array:
        """Exact epsilon of every record, ``(n,)``."""
        return np.empty(0) if self.exposure is None else self.exposure.epsilon
