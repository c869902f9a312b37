"""Code from outside gpleak: found by name, and run only when the caller allows it."""

import functools
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
    _check_same_file(module, folder, key, name)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{key} = {name!r}: cannot be loaded ({error})") from error
    except Exception as error:  # its text may quote private data
        raise InputError(f"{key} = {name!r}: cannot be loaded, its code failed ({type(error).__name__})") from error


def _check_same_file(module: str, folder: Path, key: str, name: str) -> None:
    """A module of the same name that is loaded already would be run in place of the one beside the configuration."""
    loaded = sys.modules.get(module)
    if loaded is None or not (beside := folder.resolve() / f"{module.replace('.', '/')}.py").exists():
        return
    if (file := getattr(loaded, "__file__", None)) is None or Path(file).resolve() != beside:
        raise InputError(
            f"{key} = {name!r}: a module {module!r} is already loaded from elsewhere, and would be run in place of the "
            "one beside the configuration: rename it, or audit it in a process of its own"
        )


def source_digest(thing: object) -> str:
    """SHA-256 of the source files of a thing: its function, whatever is wrapped around it, or all its class inherits.

    "unknown" where nothing of it is from a file.
    """
    files = sorted({path for part in _parts(thing) if (path := _file(part)) is not None})
    if not files:
        return "unknown"
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return f"sha256:{digest.hexdigest()}"


def _parts(thing: object) -> list[object]:
    """Functions and classes that a thing is made of, those that a decorator or a partial hides included."""
    found: list[object] = []
    while thing is not None:
        if inspect.isroutine(thing):
            found += [thing, sys.modules.get(getattr(thing, "__module__", None) or "")]
            thing = getattr(thing, "__wrapped__", None)
        elif isinstance(thing, functools.partial):
            thing = thing.func
        else:
            found += [*type(thing).__mro__, getattr(thing, "__call__", None)]  # noqa: B004 - for its file
            thing = None
    return [part for part in found if part is not None]


def _file(part: object) -> Path | None:
    """Where a function, class or module was written; None for what is not from a file or cannot be read."""
    try:
        path = Path(inspect.getfile(part))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return path if path.is_file() else None
