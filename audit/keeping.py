"""A resumable run: what a folder of finished chunks belongs to, and whether this run may go on with it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..attacks import Jump, Pool, Store, write_private
from ..mechanisms import Array, Dataset, InputError, Release
from .build import Subject
from .config import AuditPlan

_ABOUT = "run.json"
# What scores depend on.
_SCORED = {"adversaries", "lira", "shadows", "targets", "replacements", "delta", "seed"}


def release_record(release: Release) -> dict[str, Any]:
    """The public parameters as plain values."""
    return {
        "kernel": release.kernel.name,
        "length_scale": release.kernel.length_scale,
        "ridge": release.ridge,
        "scale": release.scale,
        "prior_noise": release.prior_noise,
        "paths": release.paths,
        "domain": release.domain.sides.tolist(),
        "response_bound": release.response_bound,
        "records": release.records,
        "schedule": None if release.schedule is None else list(release.schedule),
        "points": "everywhere" if release.points is None else _described(release.points),
    }


def _described(points: Array) -> dict[str, Any]:
    """Listed points by number, hash of their float64 bytes and extent; public, but there may be thousands."""
    return {
        "count": len(points),
        "sha256": hashlib.sha256(points.tobytes()).hexdigest(),
        "extent": np.stack([points.min(axis=0), points.max(axis=0)], axis=1).tolist(),
    }


def about(subject: Subject, plan: AuditPlan) -> dict[str, Any]:
    """Everything that scores depend on, flat, as plain values: public parameters, and hashes of what is private.

    The number of trials is not among them: more trials reuse the old ones. What an outsider's class does is known by
    its name alone.
    """
    population = subject.population
    outsiders = {
        name: f"{type(attack).__module__}:{type(attack).__qualname__}" for name, attack in subject.outsiders.items()
    }
    known = {
        "gpleak": __version__,
        "mechanism": _class_of(subject.mechanism),
        "data": None if subject.data is None else _hash(subject.data),
        "population": population.name if isinstance(population, Jump) else None,
        "population.label_noise": population.label_noise if isinstance(population, Jump) else None,
        "population.file": _hash(population.data) if isinstance(population, Pool) else None,
        **{f"release.{key}": value for key, value in release_record(subject.mechanism.release).items()},
        **{f"audit.{key}": value for key, value in plan.model_dump(mode="json", include=_SCORED).items()},
        "audit.adversaries from outside": outsiders or None,
    }
    plain: dict[str, Any] = json.loads(json.dumps(known))
    return plain


def open_store(folder: Path, subject: Subject, plan: AuditPlan, *, fresh: bool) -> Store:
    """The finished chunks of this run in a folder.

    Args:
        folder: Where they are, or will be.
        subject: What is audited.
        plan: How.
        fresh: Start over: finished chunks are removed.

    Raises:
        InputError: The folder holds the chunks of another run (the differences are named), or cannot be written.
    """
    now = about(subject, plan)
    path = folder / _ABOUT
    try:
        if fresh:
            for chunk in folder.glob("*.chunk"):
                chunk.unlink()
        elif path.exists():
            _compare(folder, _read(path), now)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private((json.dumps(now, indent=2, sort_keys=True) + "\n").encode(), path)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used ({error.strerror}): choose another folder with --out") from None
    return Store(folder, hashlib.sha256(json.dumps(now, sort_keys=True).encode()).hexdigest())


def _read(path: Path) -> dict[str, Any]:
    try:
        then = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        then = None
    if not isinstance(then, dict):
        raise InputError(f"{path}: is corrupt: start over with --fresh, or choose another folder with --out")
    return then


def _compare(folder: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    differ = [key for key in {**now, **then} if then.get(key) != now.get(key)]
    if not differ:
        return
    first = differ[0]
    said = f"{first} was {_brief(then.get(first))} and is {_brief(now.get(first))}"
    if first == "data":
        said = "the records differ"
    more = f"; also {', '.join(differ[1:4])}{' and more' if len(differ) > 4 else ''}" if len(differ) > 1 else ""
    raise InputError(
        f"{folder}: holds the chunks of another run: {said}{more}: start over with --fresh, or choose another folder "
        "with --out"
    )


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _class_of(thing: object) -> str:
    return f"{type(thing).__module__}:{type(thing).__qualname__}"


def _hash(data: Dataset) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(data.covariates).tobytes())
    digest.update(np.ascontiguousarray(data.responses).tobytes())
    return digest.hexdigest()
