"""Attacks that train shadows: the stress test, cost a shadow against n, all targets against one, memory."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from measuring import machine, quiet_blas

from gpleak import Dataset, Domain, ExactPosterior, Release, exponential
from gpleak.attacks import Jump, OptimalMixture, Pool, Scores, Serial, mixture_log_ratio, train_population
from gpleak.attacks.pair_moments import posterior_moments
from gpleak.attacks.shadows import simulate, without_target
from gpleak.attacks.study import Study, plan_study
from gpleak.audit import auc, roc
from gpleak.mechanisms import Array, condition

SHADOWS = TRIALS = 10_000
HERE = {"engine": Serial(), "finished": lambda: None}


def stress() -> ExactPosterior:
    """The published stress test: n = 10, one path."""
    domain = Domain([[0.0, 1.0]])
    return ExactPosterior(
        Release(kernel=exponential(1.0), ridge=0.5, scale=1.0, domain=domain, response_bound=1.0, records=10)
    )


def attacked(shadows: int, trials: int) -> Scores:
    """The stress test as an audit runs it."""
    trained = train_population(
        stress(),
        Jump(),
        Jump().target,
        attacks=[OptimalMixture(1)],
        names=[None],
        rows=None,
        shadows=shadows,
        seed=0,
        **HERE,
    )
    ((found,),) = trained.attempt(range(trials), **HERE)
    return found.scores


def loop(count: int) -> float:
    """CPU seconds for one shadow dataset of one hypothesis, one at a time, by dense algebra."""
    rng, mechanism = np.random.default_rng(0), stress()
    start = time.process_time()
    for _ in range(count):
        x = np.concatenate([rng.uniform(0, 0.5, 5), rng.uniform(0.5, 1, 5)])
        posterior = condition(Dataset(x[:, None], np.sign(x - 0.5)), kernel=mechanism.release.kernel, ridge=0.5)
        at = np.array([[0.5]])
        posterior.mean(at)
        posterior.covariance(at, at)
    return (time.process_time() - start) / count


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds, the least of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def stress_test() -> None:
    seconds = best(lambda: attacked(SHADOWS, TRIALS), 5)
    each = loop(2000)
    plain = 2 * (SHADOWS + TRIALS) * each
    print(f"stress test, {SHADOWS} + {SHADOWS} shadows and as many trials: {seconds:.3f} CPU s", end="; ")
    print(f"one dataset at a time {plain / seconds:.0f} x (posteriors alone)")
    study = plan_study(stress(), Jump(), Jump().target, rows=None, seed=0)
    law = simulate(study, 2, range(SHADOWS), released=False).of(0, study).law
    values = simulate(study, 3, range(TRIALS), released=True).trials(0, study).values[..., 0]
    exact = [mixture_log_ratio(law, side, np.zeros(TRIALS), paths=1) for side in values]
    difference = auc(roc(attacked(SHADOWS, TRIALS))) - auc(roc(Scores(*exact)))
    print(f"AUC on the grid less AUC of the uninterpolated mixture: {difference:.1e}")


def study_of(records: int, dimension: int, targets: int, *, everyone: bool = False) -> Study:
    """A pool of as many records; the first ones are attacked, out of the pool unless everyone is."""
    rng = np.random.default_rng(records)
    count = records if everyone else records + targets
    pool = Dataset(rng.random((count, dimension)), rng.uniform(-1, 1, count))
    release = Release(
        kernel=exponential(0.2),
        ridge=1.0,
        domain=Domain([[0.0, 1.0]] * dimension),
        response_bound=1.0,
        records=records,
    )
    rows = np.arange(targets)
    drawn = np.arange(count) if everyone else np.arange(targets, count)
    records_of = Dataset(pool.covariates[:targets], pool.responses[:targets])
    population = Pool(pool, drawn, "data")
    return plan_study(ExactPosterior(release), population, records_of, rows=rows if everyone else None, seed=0)


def trained(study: Study, shadows: int, trials: int) -> float:
    """CPU seconds of the attack on all targets of a study."""

    def work() -> None:
        found = train_population(
            study.mechanism,
            study.population,
            study.targets,
            attacks=[OptimalMixture(1)],
            names=range(len(study.targets)),
            rows=study.rows,
            shadows=shadows,
            seed=0,
            **HERE,
        )
        found.attempt(range(trials), **HERE)

    return best(work, 1)


def cost_a_shadow() -> None:
    for dimension in (1, 2):
        costs = {}
        for records, count in ((10, 20_000), (100, 4000), (400, 1000), (2000, 256 if dimension == 1 else 30)):
            study = study_of(records, dimension, 1)
            costs[records] = best(lambda s=study, c=count: simulate(s, 2, range(c), released=False)) / count
        shown = ", ".join(f"n = {n}: {1e6 * cost:.1f} us" for n, cost in costs.items())
        large = [n for n in costs if n >= 100]
        exponent = np.polyfit(np.log(large), np.log([costs[n] for n in large]), 1)[0]
        print(f"{dimension}-D, a shadow pair: {shown}; exponent from n = 100 up {exponent:.2f}")
    study = study_of(500, 2, 1)
    draw = study.population.draw(np.random.default_rng(0), 60, core=499)
    collapsed = best(lambda: posterior_moments(study, draw, without_target(study, draw)))
    full = best(lambda: full_cores(study, draw.covariates, draw.responses))
    print(f"n = 500 in 2-D: full cores take {full / collapsed:.1f} x as long as collapsed ones")


def full_cores(study: Study, covariates: Array, responses: Array) -> None:
    """The cores without collapsing duplicates: one Cholesky of n - 1 rows each."""
    release = study.mechanism.release
    for core in map(Dataset, covariates, responses):
        posterior = condition(core, kernel=release.kernel, ridge=release.ridge)
        posterior.mean(study.seen)
        posterior.covariance(study.seen, study.seen)


def all_against_one() -> None:
    records, shadows, trials = 500, 2000, 2000
    kept = (1.0 - 1.0 / records) ** records
    for dimension in (1, 2):
        one = trained(study_of(records, dimension, 1), shadows, trials)
        everyone = study_of(records, dimension, records, everyone=True)
        total = trained(everyone, shadows, trials)
        each = trained(everyone, round(shadows / kept), round(trials / kept))
        print(f"{dimension}-D, n = {records}, all targets / one: {total / one:.2f} at equal total shadows,", end=" ")
        print(f"{each / one:.2f} at equal shadows a target", end="")
        if dimension == 2:
            distinct = (1.0 - np.exp(-1.0)) * records
            factor, solve = distinct**3 / 3.0, distinct**2
            floor = (factor + solve * kept * records) / (factor + 3 * solve)
            print(f"; operations {floor:.2f} and {floor / kept:.2f}", end="")
        print()


def memory() -> None:
    peaks = {}
    for shadows in (100_000, 1_000_000):
        command = [sys.executable, __file__, str(shadows)]
        peaks[shadows] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    few, many = peaks.values()
    print(f"peak memory of the mixture at L = 1: {few / 1024:.0f} MiB at 1e5 shadows, {many / few:.3f} x at 1e6")


def main() -> None:
    quiet_blas()
    if len(sys.argv) > 1:
        attacked(int(sys.argv[1]), 1000)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    print(machine())
    stress_test()
    cost_a_shadow()
    all_against_one()
    memory()


if __name__ == "__main__":
    main()
