"""From the names of a plan to the attacks of those who know the population."""

from collections.abc import Callable

from ..attacks import Attack, Lira, OptimalMixture, WholePath
from ..mechanisms import InputError, Release
from .build import Subject
from .config import AuditPlan

ATTACKS: dict[str, Callable[[Release, AuditPlan], Attack]] = {
    "population": lambda release, _: OptimalMixture(release.paths),
    "lira": lambda _, plan: Lira(plan.lira.density, plan.lira.pooled, plan.lira.mode),
    "path": lambda _, __: WholePath(),
}


def population_attacks(subject: Subject, plan: AuditPlan) -> tuple[Attack, ...]:
    """The attacks that the plan names, in its order, the core adversary aside.

    Raises:
        InputError: An attack from outside gpleak was not loaded with the subject, or two have one name.
    """
    found = []
    for name in plan.adversaries:
        if name in ATTACKS:
            found.append(ATTACKS[name](subject.mechanism.release, plan))
        elif name in subject.outsiders:
            found.append(subject.outsiders[name])
        elif name != "core":
            raise InputError(f"audit.adversaries names {name!r}, which was not loaded: give it in Subject.outsiders")
    names = [attack.name for attack in found]
    if len({*names, "core", "fidelity"}) < len(names) + 2:
        raise InputError(f"audit.adversaries: each attack needs a name of its own, got {', '.join(names)}")
    return tuple(found)
