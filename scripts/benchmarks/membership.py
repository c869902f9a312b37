"""Membership evidence of a released file: time of each step by paths, points and records, on one thread."""

import resource
import time

import numpy as np
from measuring import machine
from threadpoolctl import threadpool_limits

from gpleak import Dataset, Domain, ExactPosterior, Release, exponential
from gpleak.audit import draw_replacements
from gpleak.audit.file_fidelity import file_fidelity, stated_law
from gpleak.audit.membership import membership_evidence
from gpleak.audit.released import Released
from gpleak.mechanisms.membership import membership

SETTINGS = ((500, 200, 1), (500, 200, 10), (500, 200, 100), (500, 2000, 1), (4000, 200, 1))


def measure(records: int, count: int, paths: int) -> tuple[float, ...]:
    """Seconds for the law, the fidelity, all pairs and the evidence of a file rounded to four decimals."""
    rng = np.random.default_rng(1)
    domain, points = Domain([[0, 1], [0, 1]]), rng.random((count, 2))
    release = Release(
        kernel=exponential(0.4), ridge=0.6, scale=0.8, domain=domain, response_bound=1.0, records=records, points=points
    )
    data = Dataset(rng.random((records, 2)), rng.uniform(-1, 1, records))
    mechanism = ExactPosterior(release)
    released = Released(points, np.round(mechanism.sampler(data, points).draw(1, paths=paths, rng=rng)[0], 4), 1e-4)
    others = draw_replacements(domain, 1.0, 31, np.random.SeedSequence(0))
    clock = [time.perf_counter()]
    stated = stated_law(mechanism.path_recipe, data, released)
    clock.append(time.perf_counter())
    file_fidelity(stated, released, significance=0.01)
    clock.append(time.perf_counter())
    pairs = membership(stated.recipe, data, others, stated.whitening)
    clock.append(time.perf_counter())
    membership_evidence(pairs, stated.whitening.white(released.paths), population="replacements", seed=0)
    clock.append(time.perf_counter())
    return tuple(np.diff(clock))


def main() -> None:
    """A line a setting."""
    print(machine())
    print("records  points  paths    law  fidelity  pairs  evidence   peak so far")
    with threadpool_limits(1):
        measure(50, 20, 1)
        for setting in SETTINGS:
            law, fidelity, pairs, evidence = measure(*setting)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            records, points, paths = setting
            print(
                f"{records:7}  {points:6}  {paths:5}  {law:5.2f}  {fidelity:8.2f}  {pairs:5.2f}  {evidence:8.2f}  "
                f"{peak:7.0f} MiB"
            )


if __name__ == "__main__":
    main()
