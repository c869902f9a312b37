"""Maps chunks of work over processes. The only file that imports Ray, and only when it is used.

Results are the same bit for bit whoever computes them: a chunk's work depends on its indices alone, the chunks do not
depend on the number of workers, results are put in order of their index, and BLAS runs on one thread everywhere.
"""

import os
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

_WORTH_A_CLUSTER = 8.0  # estimated seconds; starting and stopping local Ray takes about 6
_CHUNK_SECONDS = 0.2  # estimated; well above 50 ms, below what a progress bar needs
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
class LocalRay:
    """On Ray workers of this machine; made by `open_engine`."""

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
        reference = ray.put(shared)
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
                    raise error.cause from None
                finished()
            yield early.pop(turn)


def _run_chunk(function: Callable[[Any, range], Any], shared: Any, chunk: range) -> Any:
    with threadpool_limits(1):
        return function(shared, chunk)


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
    size = max(at_least, min(round(_CHUNK_SECONDS / seconds_each), at_most or count), 1)
    if size > multiple:
        size -= size % multiple
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


@contextmanager
def open_engine(workers: int | None, *, seconds: float) -> Iterator[Engine]:
    """An engine, stopped at the end.

    Args:
        workers: Number of Ray workers; 0 for none, in this process; None to choose: Ray on all cores when the work
            is worth it.
        seconds: Estimated work.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is None:
        workers = cores if cores > 1 and seconds > _WORTH_A_CLUSTER else 0
    if workers == 0:
        yield Serial()
        return
    with _local_ray(workers):
        yield LocalRay(workers)


@contextmanager
def _local_ray(workers: int) -> Iterator[None]:
    """A private cluster on this machine: no dashboard, no usage report, nobody without the token joins."""
    # Ray reads these once a process, when it is first imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with _global_generator_untouched():
        import ray

        own = not ray.is_initialized()  # else it is the caller's cluster: use it and leave it running
        if own:
            ray.init(
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                object_store_memory=_STORE_BYTES,
            )
    try:
        yield
    finally:
        if own:
            with _global_generator_untouched():
                ray.shutdown()


@contextmanager
def _global_generator_untouched() -> Iterator[None]:
    """Ray draws from the generator of `random`, which belongs to the caller."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
