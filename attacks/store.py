"""Finished chunks on disk: a run that was interrupted goes on where it was, and more trials reuse the old ones.

What is written are the arrays that a chunk returns: scores, and what attacks keep of their shadows. No record is among
them, but at a tiny ridge such a statistic lies close to the target's response: a file is its owner's alone. It is whole
or not there, and carries a checksum.
"""

import hashlib
import io
import logging
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from ..mechanisms import InputError
from .engine import Engine, Part

_LOG = logging.getLogger("gpleak")
_CHECKSUM = 32  # bytes of SHA-256


@dataclass(frozen=True)
class Store:
    """A folder of finished chunks of one run.

    Attributes:
        folder: Where they are.
        identity: Of the run: a chunk of another one counts as corrupt.
    """

    folder: Path
    identity: str

    def load(self, name: str) -> Part | None:
        """The arrays of a chunk; None if there is none, or, with a warning, if it is corrupt."""
        try:
            content = self._path(name).read_bytes()
        except OSError:
            return None
        checksum, payload = content[:_CHECKSUM], content[_CHECKSUM:]
        try:
            if checksum != self._checksum(name, payload):
                raise ValueError("checksum")
            with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except (ValueError, OSError, zipfile.BadZipFile):
            _LOG.warning("chunk %s is corrupt: it is computed again", name)
            return None

    def save(self, name: str, part: Part) -> None:
        """Write a chunk, whole or not at all.

        Raises:
            InputError: It cannot be written.
        """
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **part)
        payload = buffer.getvalue()
        try:
            write_private(self._checksum(name, payload) + payload, self._path(name))
        except OSError as error:
            raise InputError(
                f"{self.folder}: a finished chunk cannot be written ({error.strerror}): what is there is kept; make "
                "room, or choose another folder with --out"
            ) from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.chunk"

    def _checksum(self, name: str, payload: bytes) -> bytes:
        return hashlib.sha256(f"{self.identity} {name} ".encode() + payload).digest()


def write_private(content: bytes, path: Path) -> None:
    """Write a file whole or not at all, with mode 600 whatever stood there before.

    Raises:
        OSError: It cannot be written; what stood there before still does.
    """
    partial = None
    try:
        # mkstemp makes a new file of mode 600 under a name nobody could prepare.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            partial = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Keeping:
    """An engine that keeps what it finishes, and does not do again what it finds."""

    engine: Engine
    store: Store

    @property
    def name(self) -> str:
        """See `Engine`."""
        return self.engine.name

    @property
    def workers(self) -> int:
        """See `Engine`."""
        return self.engine.workers

    def map(
        self,
        function: Callable[[Any, range], Any],
        shared: Any,
        chunks: Sequence[range],
        finished: Callable[[], None],
    ) -> Iterator[Any]:
        """See `Engine`. A chunk is found again by the function's name and its numbers; a `Part` is kept, no other."""
        kind = function.__name__.strip("_").removesuffix("_chunk")
        names = [f"{kind}-{chunk.start}-{chunk.stop}" for chunk in chunks]
        known = {name: part for name in names if (part := self.store.load(name)) is not None}
        missing = [chunk for name, chunk in zip(names, chunks, strict=True) if name not in known]
        if known:
            _LOG.info("%d of %d %s chunks are there already", len(known), len(chunks), kind)
        fresh = iter(self.engine.map(function, shared, missing, finished))
        for name in names:
            if name in known:
                finished()
                yield known.pop(name)
            else:
                result = next(fresh)
                if isinstance(result, dict):
                    self.store.save(name, result)
                yield result
