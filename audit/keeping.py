"""A resumable run: what a folder of finished chunks belongs to, and whether this run may go on with it."""

import hashlib
import json
import pickle
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..attacks import Store, write_private
from ..mechanisms import OWN, Array, Dataset, InputError, Mechanism, Release, brief
from ..mechanisms.foreign import BlackBox, Deployed
from .build import Subject
from .config import AuditPlan
from .plugins import source_digest

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

    The number of trials is not among them: more trials reuse the old ones. Code from outside counts by the source file
    of its class and by its state, but not by what it imports; gpleak itself by its version and its sources.

    Raises:
        InputError: A state cannot be pickled, so that nobody could say whether it has changed.
    """
    mechanism, population = subject.mechanism, subject.population
    kernel = mechanism.release.kernel
    known = {
        "gpleak": __version__,
        "gpleak's sources": _own_sources(),
        "libraries": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "mechanism": _class_of(mechanism) if type(mechanism) in OWN else _identity(mechanism),
        "mechanism.model": model_identity(mechanism),
        "data": None if subject.data is None else _hash(subject.data),
        "population": None if population is None else _identity(population),
        **{f"release.{key}": value for key, value in release_record(mechanism.release).items()},
        "release.kernel's values": _identity(kernel),
        **{f"audit.{key}": value for key, value in plan.model_dump(mode="json", include=_SCORED).items()},
        "audit.adversaries from outside": {name: _identity(one) for name, one in subject.outsiders.items()} or None,
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
            half_written = folder.glob(".*.chunk.*")  # by a run that was killed
            for chunk in (*folder.glob("*.chunk"), *half_written):
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
    said = f"{first} was {brief(json.dumps(then.get(first)))} and is {brief(json.dumps(now.get(first)))}"
    if first in ("data", "population", "mechanism", "mechanism.model") and then.get(first) and now.get(first):
        said = {"data": "the records differ"}.get(first, f"the {first.split('.')[-1]}'s code or state differs")
    more = f"; also {', '.join(differ[1:4])}{' and more' if len(differ) > 4 else ''}" if len(differ) > 1 else ""
    raise InputError(
        f"{folder}: holds the chunks of another run: {said}{more}: start over with --fresh, or choose another folder "
        "with --out"
    )


def _class_of(thing: object) -> str:
    return f"{type(thing).__module__}:{type(thing).__qualname__}"


def _identity(thing: object) -> str:
    """Class, source file and state."""
    try:
        state = hashlib.sha256(pickle.dumps(thing)).hexdigest()
    except Exception as error:
        raise InputError(
            f"{_class_of(thing)} cannot be pickled ({type(error).__name__}): nobody could say whether kept chunks are "
            "still right, so audit it without a folder for them"
        ) from None
    return f"{_class_of(thing)}, source {source_digest(thing)}, state {state}"


def model_identity(mechanism: Mechanism) -> str | None:
    """A deployed model: its state, and the source of the function or class that is not ours; None of others."""
    if not isinstance(mechanism, Deployed | BlackBox):
        return None
    model = mechanism.model
    code = next((getattr(model, part) for part in ("function", "regressor") if hasattr(model, part)), model)
    return f"{_identity(model)}, code {source_digest(code)}"


@lru_cache(maxsize=1)
def _own_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].glob("*/**/*.py")):
        if path.relative_to(Path(__file__).parents[1]).parts[0] in ("mechanisms", "attacks", "audit"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _hash(data: Dataset) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(data.covariates).tobytes())
    digest.update(np.ascontiguousarray(data.responses).tobytes())
    return digest.hexdigest()
