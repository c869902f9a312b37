"""A sweep: one audit for every combination of the values of some keys. It plans and compares; nothing is written.

The points of a sweep are audited one after the other, each on the engine of ``[compute]``: Ray where the attacks of a
point are worth a cluster, this process otherwise. A pool over the points would be a second kind of parallelism under
which the first must be switched off, and the result may not depend on either.

A point is known by its identity, a hash of all that its result depends on: every key of the configuration but
``[compute]``, the bytes of the files that it names, the source file of code from outside, and gpleak's version.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..mechanisms import InputError, Moments, brief
from .adversaries import ATTACKS, population_attacks
from .build import MECHANISMS, Subject, build_subject
from .config import POPULATIONS, AuditConfig
from .keeping import model_identity
from .loading import load_config
from .plugins import source_digest
from .result import AuditResult
from .run import Progress, run_audit

MOST_POINTS = 10_000
_FIXED = {  # sections that cannot be varied, and why
    "compute": "[compute] changes no result",
    "data": "only public parameters can be varied, and a sweep has one table of records",
}
_HIDDEN = ("data.covariates", "data.response", "data.header")  # names of private columns are stored as hashes
_LONG = 200  # characters of a value that is stored as its hash


@dataclass(frozen=True)
class Axis:
    """One ``--vary section.key=value,value``.

    Attributes:
        key: The dotted key.
        texts: Its values as written, one or more.
    """

    key: str
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Point:
    """One combination.

    Attributes:
        values: Each varied key's value as the configuration understood it; plain JSON values, public.
        config: The whole configuration.
        identity: SHA-256 of all that the result depends on, hexadecimal.
    """

    values: Mapping[str, Any]
    config: AuditConfig
    identity: str

    @property
    def name(self) -> str:
        """For people: ``release.ridge = 0.3, release.scale = 1``."""
        return ", ".join(f"{key} = {value_text(value)}" for key, value in self.values.items())


@dataclass(frozen=True, eq=False)
class Sweep:
    """All points of a grid, row-major: the last key varies fastest.

    Attributes:
        keys: The varied keys, in the order given.
        points: One or more, each once.
        settings: What the points have in common, by dotted key: plain JSON values, nothing private.
    """

    keys: tuple[str, ...]
    points: tuple[Point, ...]
    settings: Mapping[str, Any]

    @property
    def values(self) -> dict[str, list[Any]]:
        """Each varied key's values, in the order given."""
        return {
            key: list({_json(point.values[key]): point.values[key] for point in self.points}.values())
            for key in self.keys
        }

    @property
    def identity(self) -> str:
        """SHA-256 of the settings and of the varied keys and values, hexadecimal."""
        return _hash({"settings": self.settings, "vary": self.values})


def plan_sweep(
    path: Path, vary: Sequence[str], overrides: Sequence[str] | None = None, *, allow_code: bool = False
) -> Sweep:
    """Every combination of a configuration's varied keys, each checked as far as that goes without computing.

    Args:
        path: The configuration.
        vary: One or more ``section.key=value,value``; values are TOML, or strings without quotes.
        overrides: ``section.key=value`` for all points.
        allow_code: Whether code from outside gpleak may run.

    Raises:
        InputError: A key that cannot be varied or is given twice, more than 10,000 combinations, or a combination
            that is not admissible; one line names it.
    """
    axes, given = [parse_axis(text) for text in vary], list(overrides or [])
    _check_keys([axis.key for axis in axes], [text.partition("=")[0].strip() for text in given])
    count = math.prod(len(axis.texts) for axis in axes)
    if count > MOST_POINTS:
        raise InputError(f"--vary makes {count:,} combinations: at most {MOST_POINTS:,}, so vary less")
    points: list[Point] = []
    common: dict[str, Any] = {}
    names: dict[str, str] = {}
    for texts in itertools.product(*(axis.texts for axis in axes)):
        changes = [f"{axis.key}={text}" for axis, text in zip(axes, texts, strict=True)]
        name = ", ".join(f"{axis.key} = {text}" for axis, text in zip(axes, texts, strict=True))
        try:
            config = load_config(path, [*given, *changes])
            settings = settings_of(config, _subject(config, allow_code=allow_code))
        except InputError as error:
            if points or str(error) != _problem(path, given, allow_code=allow_code):
                raise InputError(f"{name}: {error}") from None
            raise  # it has nothing to do with what is varied
        identity = _hash(settings)
        if identity in names:
            raise InputError(f"--vary: {name} is the same point as {names[identity]}: give each value once")
        names[identity] = name
        plain = config.model_dump(mode="json")
        points.append(Point({axis.key: _at(plain, axis.key) for axis in axes}, config, identity))
        common = common or {k: v for k, v in settings.items() if not any(_within(k, axis.key) for axis in axes)}
    return Sweep(tuple(axis.key for axis in axes), tuple(points), common)


def parse_axis(text: str) -> Axis:
    """``section.key=value,value``, split at commas outside brackets and quotes.

    Raises:
        InputError: It is not of this form, or the key cannot be varied.
    """
    name, equals, values = text.partition("=")
    key = name.strip()
    section, *rest = key.split(".")
    if not (equals and section and rest and all(rest)):
        raise InputError(f"--vary {text}: write section.key=value,value, such as release.ridge=0.3,1")
    if section in _FIXED:
        raise InputError(f"--vary {text}: {key} cannot be varied: {_FIXED[section]}")
    pieces, depth, quote = [""], 0, ""
    for mark in values:
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'":
            quote = mark
        else:
            depth += (mark in "[{") - (mark in "]}")
        if mark == "," and not quote and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += mark
    if quote or depth:
        raise InputError(f"--vary {text}: a quote or bracket is not closed: close it")
    texts = tuple(piece.strip() for piece in pieces)
    if not all(texts):
        raise InputError(f"--vary {text}: a value is missing: write values between single commas")
    return Axis(key, texts)


def run_point(point: Point, *, allow_code: bool = False, progress: Progress | None = None) -> AuditResult:
    """Audit one point, as `run_audit` does.

    Raises:
        InputError: The data break a premise, or a file has changed since the sweep was planned.
        NumericalError: See `run_audit`.
    """
    subject = _subject(point.config, allow_code=allow_code)
    if _hash(settings_of(point.config, subject)) != point.identity:
        raise InputError("a file that the audit reads has changed since the sweep began: run the command again")
    return run_audit(subject, point.config.audit, compute=point.config.compute, progress=progress)


def settings_of(config: AuditConfig, subject: Subject) -> dict[str, Any]:
    """All that an audit's result depends on, by dotted key, as plain JSON values.

    A file is there by the hash of its bytes, whatever its name; so are names of private columns and long lists.
    Code from outside is there with the hash of the source file that defines it, but not of what that imports.
    """
    settings = dict(_flat(config.model_dump(mode="json", exclude={"compute"})))
    settings |= {key: _digest(settings[key]) for key in _HIDDEN if isinstance(settings.get(key), str | list)}
    release = config.release
    files = {
        "population.file": config.population.file,
        "release.points": release.points,
        "release.released": release.released,
    }
    files |= {} if config.data is None else {"data.file": config.data.file}
    for key, file in files.items():
        if isinstance(file, Path):
            settings[key] = _file_digest(config.folder / file, key)
    if (model := model_identity(subject.mechanism)) is not None:
        settings["release.model"] = f"{release.model}, {model}"
    elif release.mechanism not in MECHANISMS:
        settings["release.mechanism"] += f", source {source_digest(subject.mechanism)}"
    if config.population.kind not in POPULATIONS:
        settings["population.source"] += f", source {source_digest(subject.population)}"
    settings["audit.adversaries"] = [
        f"{name}, source {source_digest(subject.outsiders[name])}" if name in subject.outsiders else name
        for name in config.audit.adversaries
    ]
    settings["gpleak_version"] = __version__
    return {key: value if len(_json(value)) <= _LONG else _digest(value) for key, value in settings.items()}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What two settings differ in, one phrase a key: ``release.scale: 1.0 then, 2.0 now``."""
    keys = [*now, *(key for key in then if key not in now)]
    absent = object()
    return [
        f"{key}: {_shown(then.get(key, 'absent'))} then, {_shown(now.get(key, 'absent'))} now"
        for key in keys
        if then.get(key, absent) != now.get(key, absent)
    ]


def value_text(value: Any) -> str:
    """A varied value as a short text."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else brief(_json(value))


def _subject(config: AuditConfig, *, allow_code: bool) -> Subject:
    """The subject, after every check that an audit makes before it computes."""
    subject = build_subject(config, allow_code=allow_code)
    release, targets = subject.mechanism.release, config.audit.targets
    subject.regime.sensitivity(release)
    if any(name in ATTACKS for name in config.audit.adversaries):  # they need a law of the values at a target
        subject.mechanism.value_law(Moments(np.zeros(1), np.ones(1)))
    population_attacks(subject, config.audit)
    if subject.data is not None:
        subject.regime.check(release, subject.data)
        if isinstance(targets, list) and max(targets) >= len(subject.data):
            last = len(subject.data) - 1
            raise InputError(f"audit.targets names record {max(targets)} but the data have records 0 to {last}")
    return subject


def _problem(path: Path, overrides: list[str], *, allow_code: bool) -> str | None:
    """What is wrong with the configuration where nothing is varied, or None."""
    try:
        _subject(load_config(path, overrides), allow_code=allow_code)
    except InputError as error:
        return str(error)
    return None


def _check_keys(varied: list[str], given: list[str]) -> None:
    """No key twice, nor a key and the section that it is in."""
    for place, key in enumerate(varied):
        for other in varied[:place]:
            if _within(key, other) or _within(other, key):
                raise InputError(f"--vary {other} and --vary {key}: a key is varied twice: write all values in one")
        for other in given:
            if _within(key, other) or _within(other, key):
                raise InputError(f"--set {other} and --vary {key}: a key is given twice: leave one of them out")


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _at(table: Any, key: str) -> Any:
    for part in key.split("."):
        table = table[part]
    return table


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _hash(value: Any) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()


def _digest(value: Any) -> str:
    return f"sha256:{_hash(value)}"


def _file_digest(path: Path, key: str) -> str:
    try:
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check {key}") from None


def _shown(value: Any) -> str:
    return brief(re.sub(r"sha256:([0-9a-f]{8})[0-9a-f]+", r"sha256:\1...", _json(value).strip('"')))
