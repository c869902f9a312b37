"""Deployed models and released files: cost beside our own mechanism's, and time and memory at many points."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import machine, run
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from gpleak import AuditPlan, Bounded, Dataset, Domain, ExactPosterior, Release, Subject, matern32, run_audit
from gpleak.audit import ComputeConfig
from gpleak.mechanisms import Record
from gpleak.mechanisms.foreign import Deployed, function, scikit_learn

RECORDS, POINTS = 500, 10_000
SERIAL = ComputeConfig(workers="serial")
CONFIG = """
[data]
file = "private.csv"
covariates = ["a", "b"]
response = "y"
[release]
mechanism = "posterior"
kernel = "matern32"
length_scale = 0.1
ridge = 1.0
domain = [[0, 1], [0, 1]]
response_bound = 1.0
released = "paths.csv"
[compute]
workers = "serial"
"""


def problem(points: int | None) -> tuple[Dataset, Release]:
    """500 records in the unit square, released at a grid or everywhere."""
    rng = np.random.default_rng(0)
    domain = Domain([[0, 1], [0, 1]])
    side = 0 if points is None else round(points**0.5)
    release = Release(
        kernel=matern32(0.1),
        ridge=1.0,
        domain=domain,
        response_bound=1.0,
        records=RECORDS,
        points=None if points is None else domain.grid((side, side)),
    )
    return Dataset(rng.random((RECORDS, 2)), rng.uniform(-1, 1, RECORDS)), release


def part(name: str) -> None:
    """One step at many points, on one thread: what `--part` runs in a process of its own."""
    data, release = problem(POINTS)
    mechanism, rng = ExactPosterior(release), np.random.default_rng(1)
    with threadpool_limits(1):
        if name == "a sampler":
            mechanism.sampler(data, release.points).draw(1, paths=1, rng=rng)
        elif name == "a score":
            mechanism.contrast(data, 0, Record([0.5, 0.5], 1.0))
        elif name == "all exact laws":
            mechanism.leave_one_out(data, Dataset(rng.random((31, 2)), rng.uniform(-1, 1, 31)))
        elif name == "a core audit":
            plan = AuditPlan(search=False, targets=1, trials=1000, fidelity=0)
            run_audit(Subject(data, mechanism, Bounded()), plan, compute=SERIAL)


def at_many_points() -> None:
    """Memory is 8 t^2 bytes a covariance, and two of them at once."""
    base = run([sys.executable, __file__, "--part", "nothing"])
    print(f"{POINTS:,} points, {RECORDS} records: a covariance has {8 * POINTS**2 / 2**20:.0f} MiB")
    for name in ("a sampler", "a score", "all exact laws", "a core audit"):
        cost = run([sys.executable, __file__, "--part", name])
        matrices = (cost.mebibytes - base.mebibytes) * 2**20 / (8 * POINTS**2)
        print(
            f"  {name:16} {cost.seconds - base.seconds:6.1f} s  {cost.mebibytes:6.0f} MiB = {matrices:.1f} covariances"
        )


def by_sampler() -> None:
    """The same audit, drawn by our own sampler, by scikit-learn, and by a function that is called release by "
    "release."""
    data, release = problem(None)
    regressor = GaussianProcessRegressor(Matern(0.1, "fixed", nu=1.5), alpha=1.0, optimizer=None)
    fitted = regressor.fit(data.covariates, data.responses)

    def draw(_x: object, _y: object, points: np.ndarray, paths: int, rng: np.random.Generator) -> np.ndarray:
        return fitted.sample_y(points, paths, random_state=int(rng.integers(2**32))).T

    own = ExactPosterior(release)
    kinds = {
        "our own": own,
        "scikit-learn": Deployed(scikit_learn.read(regressor).model, own),
        "a function": Deployed(function.read(draw).model, own),
    }
    plan, seconds = AuditPlan(search=False, targets=2, trials=2000, fidelity=0), {}
    for name, mechanism in kinds.items():
        start = time.process_time()
        run_audit(Subject(data, mechanism, Bounded()), plan, compute=SERIAL)
        seconds[name] = time.process_time() - start
        print(f"  {name:14} {seconds[name]:7.2f} CPU s, {seconds[name] / seconds['our own']:6.1f} x our own")


def released_file() -> None:
    """One path at 200 points of 500 records: the whole command on one core."""
    rng = np.random.default_rng(2)
    data, release = problem(None)
    points = rng.random((200, 2))
    path = ExactPosterior(release).sampler(data, points).draw(1, paths=1, rng=rng)[0, 0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, header, columns in (
            ("private.csv", "a,b,y", [*data.covariates.T, data.responses]),
            ("paths.csv", "a,b,path", [*points.T, path]),
        ):
            np.savetxt(folder / file, np.column_stack(columns), delimiter=",", header=header, comments="", fmt="%.17g")
        (folder / "audit.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "gpleak", "audit", str(folder / "audit.toml"), "--out", str(folder / "out")]
        for options in ([], ["--set", "audit.search=false"]):
            cost = run(["taskset", "-c", "0", *command, *options])
            print(f"  {' '.join(options) or 'the default':28} {cost.seconds:6.1f} s  {cost.mebibytes:6.0f} MiB")


def main() -> None:
    if sys.argv[1:2] == ["--part"]:
        part(sys.argv[2])
        return
    print(machine())
    print("core attack on 2 of 500 records, 2,000 trials:")
    by_sampler()
    print("a released file, one path at 200 points of 500 records, one core:")
    released_file()
    at_many_points()


if __name__ == "__main__":
    main()
