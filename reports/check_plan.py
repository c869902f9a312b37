"""From the arguments of ``leakage.check`` to the plan of an audit; what would measure nothing is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any

from pydantic import ValidationError

from ..audit import AuditPlan
from ..mechanisms import Dataset, InputError, Mechanism, Regime, brief

_KINDS = ("literal_error", "list_type", "int_type")  # of a union's branches, those that the value was not meant for


def plan_of(given: Mapping[str, Any], budget: Mapping[str, Any]) -> AuditPlan:
    """The plan: what is None comes from the budget, "certified" claims the certificate's epsilon.

    Raises:
        InputError: Nothing is claimed, or a number breaks its rule.
    """
    chosen: dict[str, Any] = {name: budget.get(name) if value is None else value for name, value in given.items()}
    if isinstance(given["claimed_epsilon"], str) and given["claimed_epsilon"] == "certified":
        chosen["claimed_epsilon"] = None
        if given["search"] is None:
            chosen["search"] = True  # what is claimed must not depend on the budget
    else:
        _check_claim(given["claimed_epsilon"])
    for name in ("adversaries", "targets"):
        if isinstance(chosen[name], Sequence) and not isinstance(chosen[name], str):
            chosen[name] = list(chosen[name])
    try:
        return AuditPlan.model_validate(chosen)
    except ValidationError as error:
        problems = error.errors()
        problem = next((one for one in problems if one["type"] not in _KINDS), problems[-1])
        rule = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if not problem["loc"]:
            raise InputError(rule) from None
        name = str(problem["loc"][0])
        remedy = AuditPlan.model_fields[name].description
        found = brief(repr(chosen[name]))
        raise InputError(f"{name} = {found}: {rule[:1].lower()}{rule[1:]}; set it to {remedy}") from None


def _check_claim(claimed: object) -> None:
    number = isinstance(claimed, int | float) and not isinstance(claimed, bool)
    if number and 0 <= claimed < inf:  # type: ignore[operator]  # NaN is not
        return
    raise InputError(
        f"claimed_epsilon = {claimed!r}: a check needs something to fail against; set it to the epsilon that is "
        'claimed, 0 or a positive number, or to "certified" for that of the certificate'
    )


def check_kinds(mechanism: object, data: object) -> None:
    """Raise `InputError` unless both are what they should be."""
    if not isinstance(data, Dataset):
        raise InputError(
            f"data is a {type(data).__name__}: give gpleak.Dataset(covariates, responses), with shapes (n, d) and (n,)"
        )
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):
        return
    raise InputError(
        f"mechanism is {brief(repr(mechanism))}, which is none: give one of gpleak's, or what is deployed beside what "
        "it is stated to be; for a function release(x, y, points, paths, rng) that is "
        "Deployed(FunctionModel(release), ExactPosterior(parameters)), with Deployed from gpleak.mechanisms.foreign "
        "and FunctionModel from gpleak.mechanisms.foreign.function"
    )


def in_python(plan: AuditPlan, regime: Regime) -> str:
    """The same audit without pytest, in a line of code."""
    given = {**plan.model_dump(exclude_defaults=True), "seed": plan.seed}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"gpleak.run_audit(gpleak.Subject(data, mechanism, {_code(regime)}), gpleak.AuditPlan({arguments}))"


def _code(regime: object) -> str:
    """What makes a regime, without what is its default."""
    if not is_dataclass(regime) or isinstance(regime, type):
        return repr(regime)
    given = [f"{one.name}={value!r}" for one in fields(regime) if (value := getattr(regime, one.name)) != one.default]
    return f"{type(regime).__name__}({', '.join(given)})"
