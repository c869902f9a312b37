"""Exact exposure of all records: pruned search against solving every pair, and the share of each step."""

import time

import numpy as np
from measuring import machine, quiet_blas

from gpleak import Dataset, Domain, ExactPosterior, Release, exponential
from gpleak.audit import draw_replacements, exposure
from gpleak.mechanisms import exact_epsilon


def main() -> None:
    quiet_blas()
    print(machine())
    rng = np.random.default_rng(0)
    for records in (125, 500, 2000):
        data = Dataset(rng.random((records, 2)), rng.uniform(-1, 1, records))
        domain = Domain([[0.0, 1.0]] * 2)
        release = Release(
            kernel=exponential(0.1), ridge=2.0, scale=1.0, domain=domain, response_bound=1.0, records=records
        )
        replacements = draw_replacements(domain, 1.0, 31, np.random.SeedSequence(0))
        start = time.perf_counter()
        laws = ExactPosterior(release).leave_one_out(data, replacements)
        algebra = time.perf_counter() - start
        start = time.perf_counter()
        found = exposure(laws, 1e-3, paths=1)
        pruned = time.perf_counter() - start
        line = f"n = {records:5}: {31 * records:6} pairs, laws {algebra:6.2f} s, pruned search {pruned:6.2f} s"
        if records <= 500:
            start = time.perf_counter()
            every = exact_epsilon(laws, 1e-3).max(axis=1)
            solved = time.perf_counter() - start
            assert np.allclose(every, found.epsilon, rtol=1e-9)
            line += f", every pair {solved:6.2f} s = {solved / pruned:.1f} x"
        print(line)


if __name__ == "__main__":
    main()
