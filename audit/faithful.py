"""Is what is audited the stated mechanism? The sampler, a released file, or of a deployed model both."""

from ..mechanisms import Dataset, HasPathLaw
from ..mechanisms.foreign import BlackBox, Deployed
from .build import Subject
from .config import AuditPlan
from .exposure import Exposure
from .fidelity import Fidelity
from .file_audit import FileAudit
from .ledger import Ledger
from .witnesses import sampler_fidelity


def is_fidelity_tested(subject: Subject, plan: AuditPlan) -> bool:
    """Whether the audit holds releases against a law, and a failure decides: of a black box no law is stated."""
    return (subject.released is not None or _is_sampler_tested(subject, plan)) and not isinstance(
        subject.mechanism, BlackBox
    )


def faithfulness(
    subject: Subject,
    plan: AuditPlan,
    ledger: Ledger,
    *,
    file: FileAudit | None,
    targets: list[int],
    replacements: Dataset,
    exposed: Exposure | None,
) -> Fidelity | None:
    """The fidelity test, or the odder of two that share its significance; None where nothing is tested.

    A released file is always tested: that draws nothing. It replaces the test of our own samplers, which have tests of
    their own, but says nothing about a deployed one.
    """
    of_sampler = _is_sampler_tested(subject, plan) and (file is None or isinstance(subject.mechanism, Deployed))
    count = of_sampler + (file is not None)
    if not count:
        return None
    # A black box is held against the law that adversaries take it for; that decides nothing and spends nothing.
    share = ledger.share("fidelity") if is_fidelity_tested(subject, plan) else plan.significance
    found = []
    if file is not None:
        found.append(file.fidelity(share / count))
    if of_sampler:
        found.append(sampler_fidelity(subject, plan, targets, replacements, exposed, significance=share / count))
    return min(found, key=lambda one: one.p_value)


def _is_sampler_tested(subject: Subject, plan: AuditPlan) -> bool:
    return plan.fidelity > 0 and isinstance(subject.mechanism, HasPathLaw)
