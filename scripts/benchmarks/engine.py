"""Where the work is done: local Ray against serial, two workers against one, what a chunk costs in time and bytes."""

import pickle
import time

import numpy as np
from measuring import machine, quiet_blas

from attacks import study_of
from gpleak.attacks import Engine, OptimalMixture, Serial, open_engine
from gpleak.attacks.engine import Part
from gpleak.attacks.population import _shadow_chunk
from gpleak.attacks.shadows import simulate

RECORDS, TARGETS, CHUNKS, PAIRS = 400, 5, 60, 256


def seconds(engine: Engine, shared: object, chunks: list[range]) -> float:
    start = time.perf_counter()
    for _ in engine.map(_shadow_chunk, shared, chunks, lambda: None):
        pass
    return time.perf_counter() - start


def nothing(_: object, chunk: range) -> Part:
    return {"numbers": np.zeros(len(chunk))}


def main() -> None:
    quiet_blas()
    print(machine())
    study = study_of(RECORDS, 2, TARGETS)
    pilot = simulate(study, 2, range(PAIRS), released=False)
    learners = [[OptimalMixture(1).learner(pilot.of(t, study)) for t in range(TARGETS)]]
    shared = (study, False, learners)
    chunks = [range(start, start + PAIRS) for start in range(0, CHUNKS * PAIRS, PAIRS)]
    part = _shadow_chunk(shared, chunks[0])
    took: dict[int, float] = {}
    for workers in (0, 1, 2):
        start = time.perf_counter()
        with open_engine(workers, seconds=0.0) as engine:
            list(engine.map(_shadow_chunk, shared, chunks[:4], lambda: None))  # workers are up and have imported
            begun = time.perf_counter() - start
            took[workers] = min(seconds(engine, shared, chunks) for _ in range(2))
            empty = [range(index, index + 1) for index in range(2000)]
            before = time.perf_counter()
            list(engine.map(nothing, None, empty, lambda: None))
            each = (time.perf_counter() - before) / len(empty)
        print(
            f"{workers or 'no'} worker(s): {took[workers]:.2f} s for {CHUNKS} chunks of {PAIRS} pairs, n = {RECORDS}, "
            f"2-D; ready after {begun:.1f} s; an empty chunk takes {1e3 * each:.2f} ms"
        )
    print(f"local Ray / serial, one worker each: {took[1] / took[0]:.3f}")
    print(f"2 workers are {took[1] / took[2]:.2f} x as fast as 1")
    once, back = (len(pickle.dumps(what)) for what in (shared, part))
    print(f"sent once: {once / 2**20:.1f} MiB; a chunk returns {back / 1024:.1f} KiB")
    large = study_of(4390, 2, TARGETS)
    start = time.process_time()
    simulate(large, 2, range(4), released=False)
    print(f"n = 4390 in 2-D: {(time.process_time() - start) / 4:.3f} CPU s a pair, {TARGETS} targets")
    start = time.process_time()
    list(Serial().map(nothing, None, [range(1)] * 200, lambda: None))
    print(f"serial: {1e3 * (time.process_time() - start) / 200:.2f} ms a chunk for limiting threads")


if __name__ == "__main__":
    main()
