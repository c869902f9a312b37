"""Reads a configuration file; an error is one line that says where and what to do."""

import difflib
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ..mechanisms import InputError, brief
from .config import AuditConfig


def load_config(path: Path, overrides: list[str] | None = None) -> AuditConfig:
    """Read a TOML file and apply overrides of the form ``section.key=value``.

    Raises:
        InputError: The file cannot be read, is not TOML, or breaks a rule; one line says where and what to do.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give the path of a configuration") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from None
    for override in overrides or []:
        _override(table, override)
    if "folder" in table:
        raise InputError(f"{path}: unknown key 'folder'")
    try:
        return AuditConfig(**table, folder=path.parent)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain(error)}") from None


def _override(table: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    *sections, key = name.strip().split(".")
    if not (equals and sections and all(sections) and key):
        raise InputError(f"--set {override}: write section.key=value, such as release.ridge=1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    target = table
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise InputError(f"--set {override}: {section!r} is not a section")
    target[key] = value


def _explain(error: ValidationError) -> str:
    """The first problem as one line: value, rule, remedy; and how many more there are."""
    problems = error.errors()
    # A union reports every branch it tried; the one for the value itself comes last and has the shortest path.
    # An unknown key is often a misspelt one that is then also missing: name it first.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    model: Any = AuditConfig
    place: list[str] = []
    remedy = ""
    for step in first["loc"]:
        fields = getattr(model, "model_fields", {})
        if step in fields:
            place.append(str(step))
            remedy, model = fields[step].description or "", _section(fields[step].annotation)
    name = ".".join(place) or "configuration"
    more = {problem["loc"][:2] for problem in problems} - {first["loc"][:2]}  # section and key
    tail = f" (and {len(more)} more problem(s))" if more else ""
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        where = f" in [{name}]" if place else ""
        known = [k for k in getattr(model, "model_fields", {}) if k != "folder"]
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
        return f"unknown key {key!r}{where}: did you mean {near[0]!r}?" + tail
    if first["type"] == "missing" and len(place) == len(first["loc"]):
        return f"{name} is missing" + (f": set it to {remedy}" if remedy else "") + tail
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not place or (first["type"] == "value_error" and len(place) == 1):
        return rule + tail  # a rule about several keys names them itself
    remedy = f"; set it to {remedy}" if remedy else ""
    if first["type"] == "missing":
        return f"{name} is incomplete{remedy}" + tail
    return f"{name} = {brief(repr(first['input']))}: {rule[0].lower()}{rule[1:]}{remedy}" + tail


def _section(annotation: Any) -> Any:
    """The section in ``Section | None``, or what it is."""
    sections = [kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return sections[0] if sections else annotation
