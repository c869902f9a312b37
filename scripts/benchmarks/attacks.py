"""Shadow pairs: cost against n with the fitted exponent, collapsed against full cores, two workers against one."""

import time

import numpy as np
from measuring import machine, quiet_blas

from gpleak import Dataset, Domain, ExactPosterior, Release, exponential
from gpleak.attacks import Pool, open_engine
from gpleak.attacks.population import shadow_chunk
from gpleak.attacks.shadows import Study, draw_pairs, plan_study, posterior_moments
from gpleak.mechanisms import Mechanism, condition

TARGETS = 5


def study_of(records: int, dimension: int) -> Study:
    rng = np.random.default_rng(records)
    pool = Dataset(rng.random((records + TARGETS, dimension)), rng.uniform(-1, 1, records + TARGETS))
    release = Release(
        kernel=exponential(0.2),
        ridge=1.0,
        domain=Domain([[0.0, 1.0]] * dimension),
        response_bound=1.0,
        records=records,
    )
    mechanism: Mechanism = ExactPosterior(release)
    targets = Dataset(pool.covariates[:TARGETS], pool.responses[:TARGETS])
    left = np.arange(TARGETS, len(pool))
    return plan_study(mechanism, Pool(pool, left, "data"), targets, rows=None, seed=0)


def best(work, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def full_cores(study: Study, count: int) -> None:
    """The same posteriors without collapsing duplicates: one Cholesky of n - 1 rows a core."""
    draw, _ = draw_pairs(study, 2, range(count))
    release = study.mechanism.release
    for b in range(count):
        core = condition(Dataset(draw.covariates[b], draw.responses[b]), kernel=release.kernel, ridge=release.ridge)
        ends = np.vstack([study.seen, draw.other[b]])
        core.mean(ends)
        core.covariance(ends, ends)


def main() -> None:
    quiet_blas()
    print(machine())
    for dimension in (1, 2):
        costs = {}
        for records, count in ((10, 4000), (100, 600), (400, 200), (500, 150)):
            study = study_of(records, dimension)
            costs[records] = best(lambda study=study, count=count: shadow_chunk(study, range(count))) / count
        base = costs[10]
        shown = ", ".join(f"n = {n}: {1e6 * cost:6.0f} us ({cost / base:5.1f} x)" for n, cost in costs.items())
        large = [n for n in costs if n >= 100]
        exponent = np.polyfit(np.log(large), np.log([costs[n] for n in large]), 1)[0]
        print(f"{dimension}-D, a pair for {TARGETS} targets: {shown}; exponent from n = 100 up {exponent:.2f}")

    study = study_of(500, 2)
    collapsed = best(lambda: posterior_moments(study, draw_pairs(study, 2, range(60))[0]))
    full = best(lambda: full_cores(study, 60))
    print(f"n = 500 in 2-D: full cores take {full / collapsed:.1f} x as long as collapsed ones")

    chunks = [range(start, start + 200) for start in range(0, 12_000, 200)]
    seconds = {}
    for workers in (0, 1, 2):
        with open_engine(workers, seconds=0.0) as engine:
            engine.map(shadow_chunk, study, chunks[:4], lambda: None)  # workers are started and have imported
            start = time.perf_counter()
            engine.map(shadow_chunk, study, chunks, lambda: None)
            seconds[workers] = time.perf_counter() - start
    print(
        f"n = 500 in 2-D, {12_000} pairs: Ray with 1 worker {seconds[1] / seconds[0]:.2f} x serial, "
        f"2 workers {seconds[1] / seconds[2]:.2f} x as fast as 1"
    )


if __name__ == "__main__":
    main()
