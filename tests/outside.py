"""Mechanisms written outside the package, audited by name: ``outside:ByScikitLearn`` and a faulty twin."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from gpleak import ExactPosterior


@dataclass(frozen=True)
class Draws:
    mean: np.ndarray
    root: np.ndarray
    jitter: float = 0.0

    def draw(self, releases, *, paths, rng):
        return self.mean + rng.standard_normal((releases, paths, len(self.mean))) @ self.root.T


class ByScikitLearn:
    """Exact posterior sampling by scikit-learn, stated to follow gpleak's law of it."""

    name, blow_up = "by_scikit_learn", 1.0

    def __init__(self, release):
        self.release, stated = release, ExactPosterior(release)
        self.renyi, self.leave_one_out = stated.renyi, stated.leave_one_out
        self.contrast, self.value_law, self.path_law = stated.contrast, stated.value_law, stated.path_law

    def sampler(self, data, points):
        model = GaussianProcessRegressor(self.release.kernel.evaluator, alpha=self.release.ridge**2, optimizer=None)
        mean, covariance = model.fit(data.covariates, data.responses).predict(points, return_cov=True)
        values, vectors = np.linalg.eigh(covariance)
        scale = self.release.scale * self.blow_up
        return Draws(mean, scale * vectors * np.sqrt(np.maximum(values, 0.0)))


class WrongScale(ByScikitLearn):
    """The same with a third of the stated scale: it leaks more than it says."""

    name, blow_up = "wrong_scale", 1.0 / 3.0
