"""``audit.json``: the machine-readable record of an audit. Strict JSON; infinity is the string "Infinity"."""

import json
import math
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ..attacks import write_private as write_bytes
from ..audit import AttackResult, AuditResult, Certificate, EpsilonBound, Exposure, Fidelity, WorstPair, release_record
from ..mechanisms import Dataset, InputError, Record, brief
from .drawn import curve_record, outlook_record
from .implementation import implementation_record
from .released import released_record
from .upgrades import SCHEMA_VERSION, UPGRADES

__all__ = ["SCHEMA_VERSION", "as_record", "load_record", "strict_json", "write_private", "write_record"]

# What holds text only: a mechanism may be called Infinity.
_TEXTS = frozenset(
    (
        *("gpleak_version", "versions", "command", "verdict", "reason", "test", "neighbouring", "sha256", "mechanism"),
        *("kernel", "regime", "method", "assumptions", "direction", "stated", "taken_for", "notes", "population"),
        *("source", "name", "adversary", "kind", "engine"),
    )
)
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib")


def as_record(result: AuditResult, *, command: str | None = None) -> dict[str, Any]:
    """The audit as plain values, with all that a report shows. No private record is in it: rows are named by number.

    Args:
        result: What was found.
        command: What would find the same again; None where no command line was used.
    """
    exposed = [] if result.exposure is None else _exposed(result.exposure, result.replacements)
    worst = result.worst_record
    return {
        "schema_version": SCHEMA_VERSION,
        "gpleak_version": __version__,
        "versions": {
            "gpleak": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        "command": command,
        "verdict": str(result.verdict),
        "reason": result.reason,
        "decided_by": None
        if result.decided_by is None
        else {"test": result.decided_by, "significance": result.decided_at},
        "neighbouring": "replace_one",
        "seed": result.seed,
        "replacements": len(result.replacements),
        "data": None
        if result.records is None
        else {
            "records": result.records,
            "sha256": result.sha256,
            "clipped": result.clipped,
        },
        "release": {
            "mechanism": result.mechanism.name,
            **release_record(result.mechanism.release),
            "regime": result.regime,
            "jitter": result.jitter,
        },
        "certificate": {"delta": result.delta, **certificate_record(result.certificate)},
        "certificates": [certificate_record(certificate) for certificate in result.certificates],
        "assumptions": list(result.assumptions),
        "claimed_epsilon": result.claimed_epsilon,
        "worst_pair": None if result.worst_pair is None else worst_pair_record(result.worst_pair),
        "worst_exact": None
        if worst is None
        else {"epsilon": result.worst_epsilon, "record": worst, "replacement": exposed[worst]["replacement"]},
        "records": exposed,
        "epsilon_everywhere": None
        if result.exposure_everywhere is None
        else _exposed(result.exposure_everywhere, result.replacements),
        "implementation": implementation_record(result),
        "released": None if result.released is None else released_record(result.released),
        "population": result.population,
        "fidelity": None if result.fidelity is None else _fidelity(result.fidelity),
        "ledger": {
            "significance": result.ledger.significance,
            "spent": result.ledger.spent,
            "entries": [asdict(expense) for expense in result.ledger.expenses],
        },
        "attacks": [_attack(attack) for attack in result.attacks],
        "outlook": None if result.outlook is None else outlook_record(result.outlook, worst),
        "timings": {**result.timings, "engine": result.engine[0], "workers": result.engine[1]},
    }


def _exposed(exposure: Exposure, replacements: Dataset) -> list[dict[str, Any]]:
    """Exact epsilon of every record, and the public record that shows it."""
    return [
        {
            "record": row,
            "epsilon_exact": float(epsilon),
            "replacement": {"index": int(index), **_record(replacements.record(int(index)))},
        }
        for row, (epsilon, index) in enumerate(zip(exposure.epsilon, exposure.replacement, strict=True))
    ]


def worst_pair_record(pair: WorstPair) -> dict[str, Any]:
    """The worst pair found: public datasets, written out so that anyone can check."""
    return {
        "epsilon": pair.epsilon,
        "delta": pair.delta,
        "paths": pair.paths,
        "direction": pair.direction,
        "row": pair.row,
        "record": _record(pair.record),
        "replacement": _record(pair.replacement),
        "core": [
            {**_record(pair.core.record(index)), "copies": int(copies)} for index, copies in enumerate(pair.copies)
        ],
        "evaluations": pair.evaluations,
    }


def _record(record: Record) -> dict[str, Any]:
    """A public record: a replacement, or one of a searched pair."""
    return {"covariates": record.covariates.tolist(), "response": float(record.response)}


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain values; a numerical supremum says how it was found."""
    search = certificate.search
    return {
        "epsilon": certificate.epsilon,
        "alpha": certificate.order,
        "regime": certificate.regime,
        "method": certificate.method,
        "resolution": None if search is None else search.resolution,
        "agreement": None if search is None else search.agreement,
        "found": None if search is None else search.found,
        "pairs": None if search is None else search.pairs,
    }


def _attack(attack: AttackResult) -> dict[str, Any]:
    bound = attack.epsilon_lower
    return {
        "adversary": attack.adversary,
        "record": attack.record,
        "trials": attack.trials,
        "evaluated": bound.evaluated,
        "shadows": attack.shadows,
        "kept_bytes": attack.kept,
        "notes": list(attack.notes),
        "auc": attack.auc,
        "curve": curve_record(attack.curve),
        "tpr_at_fpr": [
            {
                "fpr": point.fpr,
                "realised_fpr": point.realised_fpr,
                "tpr": point.tpr,
                "tpr_low": point.tpr_low,
                "tpr_high": point.tpr_high,
                "coarse": point.coarse,
            }
            for point in attack.tpr_at_fpr
        ],
        "epsilon_lower": _bound(bound),
        "epsilon_exact": attack.epsilon_exact,
        "largest_provable_epsilon": attack.largest_provable_epsilon,
        "model_based": None if attack.model_based is None else _bound(attack.model_based),
        "estimates": [_bound(estimate) for estimate in attack.estimates],
    }


def _bound(bound: EpsilonBound) -> dict[str, Any]:
    return {
        "value": bound.value,
        "significance": bound.significance,
        "method": bound.method,
        "direction": bound.direction,
        "kind": str(bound.kind),
    }


def _fidelity(fidelity: Fidelity) -> dict[str, Any]:
    return {
        "p_value": fidelity.p_value,
        "passed": fidelity.passed,
        "significance": fidelity.significance,
        "source": fidelity.source,
        "paths": fidelity.paths,
        "points": fidelity.points,
        "checks": [asdict(check) for check in fidelity.checks],
    }


def write_record(record: dict[str, Any], path: Path) -> None:
    """Write `record` as strict JSON, whole or not at all, readable by its owner only.

    Raises:
        InputError: The file cannot be written.
        ValueError: A value is NaN: it would say nothing, so it is not written.
    """
    write_private(strict_json(record), path)


def load_record(path: Path) -> dict[str, Any]:
    """Read a record of this or an older schema version, brought up to date; infinity is a float again.

    Raises:
        InputError: Not a record, not strict JSON (NaN or a bare Infinity), or one from a newer gpleak.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        version_of = record["schema_version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: is not an audit record ({error})") from None
    if type(version_of) is not int or version_of < 1:
        raise InputError(
            f"{path}: schema_version is {brief(json.dumps(version_of))}, must be a whole number from 1: give the "
            "audit.json that gpleak audit wrote"
        )
    if version_of > SCHEMA_VERSION:
        raise InputError(
            f"{path}: has schema version {version_of}, newer than this gpleak's {SCHEMA_VERSION}: update gpleak"
        )
    while version_of < SCHEMA_VERSION:
        try:
            record = UPGRADES[version_of](record)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: is not the whole record of an audit of schema version {version_of} "
                f"({type(error).__name__}: {error}): give the audit.json that gpleak audit wrote"
            ) from None
        version_of += 1
    loaded: dict[str, Any] = _infinite(record)
    return loaded


def _no_constant(name: str) -> None:
    raise ValueError(f'{name} is no strict JSON: infinity is written as the string "Infinity", and NaN says nothing')


def write_private(content: str | bytes, path: Path) -> None:
    """Write a text file whole or not at all, with mode 600 whatever stood there before."""
    try:
        write_bytes(content.encode() if isinstance(content, str) else content, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}): choose another folder with --out") from None


def strict_json(record: Any) -> str:
    """Strict JSON text; infinity is the string "Infinity", NaN raises `ValueError`."""
    return json.dumps(_strict(record), indent=2, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def _infinite(value: Any) -> Any:
    if isinstance(value, str) and value in ("Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, dict):
        return {key: item if key in _TEXTS else _infinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_infinite(item) for item in value]
    return value
