"""Maps chunks of work over processes. The only file that imports Ray, and only when it is used.

Results are the same bit for bit whoever computes them: a chunk's work depends on its indices alone, the chunks do not
depend on the number of workers, results are put in order of their index, and BLAS runs on one thread everywhere.
"""

import os
import random
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..mechanisms import InputError

Part = dict[str, NDArray[Any]]  # what a chunk returns, if it may be kept on disk

_WORTH_A_CLUSTER = 8.0  # estimated seconds; starting and stopping local Ray takes about 6
CHUNK_SECONDS = 0.2  # estimated; well above 50 ms, below what a progress bar needs
_IN_FLIGHT = 2  # chunks a worker: one that runs, one that waits
_OUT_OF_TURN = 8  # chunks a worker that may be ahead of the first unfinished one
_STORE_BYTES = 1 << 30


class Engine(Protocol):
    """Runs a function on chunks of indices."""

    @property
    def name(self) -> str:
        """What ran: "serial" or "ray"."""
        ...

    @property
    def workers(self) -> int:
        """Processes that work at once."""
        ...

    def map(
        self,
        function: Callable[[Any, range], Any],
        shared: Any,
        chunks: Sequence[range],
        finished: Callable[[], None],
    ) -> Iterator[Any]:
        """``function(shared, chunk) for chunk in chunks``, in this order, as they come.

        `finished` is called after each. What was given out is not kept.
        """
        ...


@dataclass(frozen=True)
class Serial:
    """In this process, one chunk after the other."""

    name: str = "serial"
    workers: int = 1

    def map(
        self,
        function: Callable[[Any, range], Any],
        shared: Any,
        chunks: Sequence[range],
        finished: Callable[[], None],
    ) -> Iterator[Any]:
        """See `Engine`."""
        for chunk in chunks:
            result = _run_chunk(function, shared, chunk)
            finished()
            yield result


@dataclass(frozen=True)
class RayEngine:
    """On Ray workers; made by `open_engine`."""

    workers: int
    name: str = "ray"

    def map(
        self,
        function: Callable[[Any, range], Any],
        shared: Any,
        chunks: Sequence[range],
        finished: Callable[[], None],
    ) -> Iterator[Any]:
        """See `Engine`. `shared` goes into the object store once; few chunks are in flight or out of turn."""
        import ray

        remote = ray.remote(num_cpus=1)(_run_chunk)
        reference = _stored(shared)
        early: dict[int, Any] = {}
        running: dict[Any, int] = {}
        sent = 0
        for turn in range(len(chunks)):
            while turn not in early:
                # A slow chunk holds the others back only when so many have finished before their turn.
                while len(running) < _IN_FLIGHT * self.workers and sent < min(
                    len(chunks), turn + _OUT_OF_TURN * self.workers
                ):
                    running[remote.remote(function, reference, chunks[sent])] = sent
                    sent += 1
                (done,), _ = ray.wait(list(running), num_returns=1)
                try:
                    early[running.pop(done)] = ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, ray.exceptions.RayError):
                        raise _lost(error.cause) from None
                    raise error.cause from None  # Ray's own text quotes what was captured
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError):
                    raise InputError(
                        "the worker of a chunk died again and again, usually for want of memory: use fewer workers "
                        "(compute.workers), paths or points"
                    ) from None
                except ray.exceptions.RayError as error:
                    raise _lost(error) from None
                finished()
            yield early.pop(turn)


def _run_chunk(function: Callable[[Any, range], Any], shared: Any, chunk: range) -> Any:
    with threadpool_limits(1):
        return function(shared, chunk)


@contextmanager
def noted(what: str) -> Iterator[None]:
    """An error in the block says where it happened, in a note: its own text may quote what it must not."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


def _lost(error: Exception) -> InputError:
    return InputError(
        f"a chunk was lost to Ray ({type(error).__name__}): can all workers import gpleak and your modules, and is "
        "there enough memory? compute.workers = 'serial' does without Ray"
    )


def _stored(shared: Any) -> Any:
    """A reference to an object in Ray's store. What Ray says of one that cannot be sent quotes it."""
    import ray

    try:
        return ray.put(shared)
    except Exception as error:
        raise InputError(
            f"a mechanism, population or attack cannot be sent to workers ({type(error).__name__}): set "
            "compute.workers = 'serial', or make it picklable"
        ) from None


def chunks_of(
    count: int, *, seconds_each: float, at_least: int = 1, at_most: int | None = None, multiple: int = 1
) -> list[range]:
    """Split `count` indices into chunks of about 0.2 s of estimated work. The estimate decides speed only.

    Args:
        count: How many.
        seconds_each: Estimated work of one.
        at_least: Indices a chunk that cost little more than one, for they share a preparation.
        at_most: Indices a chunk that still fit into memory.
        multiple: Larger chunks hold a multiple of so many, for they are prepared together.
    """
    size = max(at_least, min(round(CHUNK_SECONDS / seconds_each), at_most or count), 1)
    if size > multiple:
        size -= size % multiple
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


@contextmanager
def open_engine(workers: int | None, *, seconds: float, address: str | None = None) -> Iterator[Engine]:
    """An engine, stopped at the end.

    Args:
        workers: Number of Ray workers; 0 for none, in this process; None to choose: Ray on all cores when the work
            is worth it, or on all of the cluster's.
        seconds: Estimated work.
        address: Of an existing cluster, "auto" or "ray://host:port"; None starts a private one on this machine.

    Raises:
        InputError: The cluster cannot be reached or has fewer processors than workers are asked for.
    """
    if address is not None and workers != 0:
        with _joined(address, workers) as joined:
            yield RayEngine(joined)
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is None:
        workers = cores if cores > 1 and seconds > _WORTH_A_CLUSTER else 0
    if workers == 0:
        yield Serial()
        return
    with _local_ray(workers):
        yield RayEngine(workers)


def _import_ray() -> Any:
    """Ray, which reports no usage. It reads such variables once a process, when it is first imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    return ray


@contextmanager
def _joined(address: str, workers: int | None) -> Iterator[int]:
    """A cluster that somebody else runs: left running. Its token is the caller's, in RAY_AUTH_TOKEN."""
    with _global_generator_untouched():
        ray = _import_ray()
        own = not ray.is_initialized()
        if own:
            try:
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except Exception as error:
                raise InputError(
                    f"compute.address = {address!r}: cannot be joined ({type(error).__name__}): is the cluster up, and "
                    "does RAY_AUTH_TOKEN hold its token?"
                ) from None
    try:
        have = int(ray.cluster_resources().get("CPU", 0))
        need = max(workers or 1, 1)
        if have < need:
            raise InputError(
                f"compute.workers = {need} but the cluster at {address!r} has {have} processor(s): ask for at most "
                f"{have}, or start more nodes"
            )
        yield workers or have
    finally:
        if own:
            with _global_generator_untouched():
                ray.shutdown()


@contextmanager
def _local_ray(workers: int) -> Iterator[None]:
    """A private cluster on this machine: nobody without the token joins, and its folder is the owner's alone.

    Nothing of the object store goes to disk: what does not fit waits.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    folder = None
    with _global_generator_untouched():
        ray = _import_ray()
        own = not ray.is_initialized()  # else it is the caller's cluster: use it and leave it running
        if own:
            # Ray's sockets lie in it, and a socket's path may have about 100 characters only.
            folder = tempfile.mkdtemp(prefix="gpleak-", dir="/tmp" if os.path.isdir("/tmp") else None)
            ray.init(
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                object_store_memory=_STORE_BYTES,
                _temp_dir=str(Path(folder) / "ray"),  # Ray opens its own folder to all
                _system_config={"automatic_object_spilling_enabled": False},
            )
    try:
        yield
    finally:
        if own:
            with _global_generator_untouched():
                ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _global_generator_untouched() -> Iterator[None]:
    """Ray draws from the generator of `random`, which belongs to the caller."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
