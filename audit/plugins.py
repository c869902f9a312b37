"""Code from outside gpleak: found by name, and run only when the caller allows it."""

import hashlib
import importlib
import inspect
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..mechanisms import InputError

MECHANISM_GROUP = "gpleak.mechanisms"


def registered(group: str) -> dict[str, str]:
    """Names that installed packages registered under an entry point group, and their ``module:name``. Runs nothing."""
    return {point.name: point.value for point in entry_points(group=group)}


def is_outside(name: str, group: str) -> bool:
    """Whether a name can only be code from outside: ``module:name``, or registered."""
    module, colon, attribute = name.partition(":")
    return bool(colon and module and attribute) or name in registered(group)


def load_outside(name: str, *, group: str, key: str, folder: Path, allow_code: bool) -> Any:
    """The object behind ``module:name`` or a registered name.

    Args:
        name: What the configuration names.
        group: Entry points to look in.
        key: Of the configuration, for messages.
        folder: Of the configuration: the module may lie beside it, where no import path leads yet.
        allow_code: Whether it may be imported, which runs its code.

    Raises:
        InputError: It may not be run or cannot be loaded.
    """
    if not allow_code:
        raise InputError(f"{key} = {name!r}: would run code from outside gpleak; read it first, then pass --allow-code")
    module, _, attribute = registered(group).get(name, name).partition(":")
    # It stays there: workers take over this process's path, and must find the same module.
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, place)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{key} = {name!r}: cannot be loaded ({error})") from None


def source_digest(thing: object) -> str:
    """SHA-256 of the source file of a function or of a thing's class; "unknown" where it is not from a file."""
    try:
        content = Path(inspect.getfile(thing if inspect.isroutine(thing) else type(thing))).read_bytes()
    except (OSError, TypeError):
        return "unknown"
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
