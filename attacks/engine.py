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
    ) -> list[Any]:
        """``[function(shared, chunk) for chunk in chunks]``; `finished` is called after each."""
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
    ) -> list[Any]:
        """See `Engine`."""
        results = []
        with threadpool_limits(1):
            for chunk in chunks:
                results.append(function(shared, chunk))
                finished()
        return results


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
    ) -> list[Any]:
        """See `Engine`. `shared` goes into the object store once; few chunks are in flight at a time."""
        import ray

        remote = ray.remote(num_cpus=1)(_run_chunk)
        reference = ray.put(shared)
        results: dict[int, Any] = {}
        waiting = iter(enumerate(chunks))
        running: dict[Any, int] = {}
        while len(results) < len(chunks):
            while len(running) < _IN_FLIGHT * self.workers and (following := next(waiting, None)) is not None:
                index, chunk = following
                running[remote.remote(function, reference, chunk)] = index
            (done,), _ = ray.wait(list(running), num_returns=1)
            try:
                results[running.pop(done)] = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            finished()
        return [results[index] for index in range(len(chunks))]


def _run_chunk(function: Callable[[Any, range], Any], shared: Any, chunk: range) -> Any:
    with threadpool_limits(1):
        return function(shared, chunk)


def chunks_of(count: int, *, seconds_each: float, at_least: int = 1) -> list[range]:
    """Split `count` indices into chunks of about 0.2 s of estimated work. The estimate decides speed only.

    Args:
        count: How many.
        seconds_each: Estimated work of one.
        at_least: Indices a chunk that cost little more than one, for they share a preparation.
    """
    size = max(at_least, round(_CHUNK_SECONDS / seconds_each))
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
