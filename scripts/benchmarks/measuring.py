"""Wall time and memory of a command's whole process tree, and the name of the machine's arithmetic."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        seconds: Wall time.
        mebibytes: Peak of the proportional set sizes summed over the process tree, sampled 50 times a second.
    """

    seconds: float
    mebibytes: float


def run(command: list[str], expected: tuple[int, ...] = (0,)) -> Cost:
    """Run a command to its end; raises when its exit status is not one of `expected`."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_size, descendants(process.pid))))
            time.sleep(0.02)
    if process.returncode not in expected:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Cost(time.perf_counter() - start, peak / 1024)


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def proportional_size(pid: int) -> float:
    """KiB of memory, shared pages divided among those who share them; 0 for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:")))


def machine() -> str:
    """Cores, BLAS kernel and threads: a benchmark without them cannot be compared."""
    np.ones((2, 2)) @ np.ones((2, 2))
    blas = [f"{info['internal_api']} {info.get('architecture', '?')}" for info in threadpool_info()]
    return f"{os.cpu_count()} cores, {', '.join(sorted(set(blas)))}, numpy {np.__version__}"


def quiet_blas() -> None:
    """One BLAS thread in this process, as in workers."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
