"""What is deployed elsewhere, as configurations name it: ``deployed_models:latent`` and many that are wrong."""

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

AMPLITUDE, NOISE = ConstantKernel(0.64, "fixed"), 0.2304  # ridge 0.6, scale 0.8
ROUGH = Matern(0.4, "fixed", nu=0.5)


def regressor(kernel=AMPLITUDE * ROUGH, **changes):
    return GaussianProcessRegressor(kernel, **{"alpha": NOISE, "optimizer": None, **changes})


class ThirdOfTheScale(GaussianProcessRegressor):
    """It draws paths that vary too little and says nothing of it."""

    def sample_y(self, X, n_samples=1, random_state=0):
        mean = self.predict(X)[:, None]
        return mean + (super().sample_y(X, n_samples, random_state) - mean) / 3.0


class ScaledInputs(GaussianProcessRegressor):
    """It learns a scale of the covariates from the private data, and reports what follows from it."""

    def fit(self, X, y):
        self.scale_ = np.std(X, axis=0)
        return super().fit(X / self.scale_, y)

    def predict(self, X, return_std=False, return_cov=False):
        return super().predict(X / self.scale_, return_std, return_cov)


latent = regressor()
predictive = regressor(AMPLITUDE * ROUGH + WhiteKernel(NOISE, "fixed"), alpha=1e-10)
tuned = GaussianProcessRegressor(ConstantKernel(0.64) * Matern(0.4, nu=0.5), alpha=NOISE)
third = ThirdOfTheScale(AMPLITUDE * ROUGH, alpha=NOISE, optimizer=None)
scaled = ScaledInputs(AMPLITUDE * ROUGH, alpha=NOISE, optimizer=None)
per_row = regressor(alpha=np.linspace(0.5, 1.5, 25) * NOISE)

REFUSED = {
    "normalize_y": (regressor(normalize_y=True), "normalize_y = True: it centres and scales by the mean"),
    "tuned": (tuned, r"tunes 2 hyperparameter\(s\) on the private data"),
    "anisotropic": (regressor(AMPLITUDE * RBF([0.4, 0.5], "fixed")), "anisotropic.*divide each covariate"),
    "not stationary": (regressor(AMPLITUDE * DotProduct(1.0, "fixed")), "is not stationary"),
    "periodic": (regressor(ExpSineSquared(1.0, 1.0, "fixed", "fixed")), "is not among those that are supported"),
    "rational": (regressor(RationalQuadratic(1.0, 1.0, "fixed", "fixed")), "is not among those that are supported"),
    "smoothness": (regressor(Matern(0.4, "fixed", nu=1.0)), "nu = 1: 0.5, 1.5, 2.5 and inf"),
    "sum": (regressor(AMPLITUDE * ROUGH + RBF(0.1, "fixed")), "one kernel times a constant"),
    "offset": (regressor(ROUGH + ConstantKernel(1.0, "fixed")), "one kernel times a constant"),
    "power": (regressor(ROUGH**2), "powers and compounds"),
    "noise alone": (regressor(WhiteKernel(1.0, "fixed")), "nothing correlates two places"),
    "two noises": (regressor(predictive.kernel, alpha=0.1), "the noise of one to its draws but not that of the other"),
    "per row": (per_row, "noise level for each row.*release.public"),
    "another class": (object(), "is a object, not a GaussianProcessRegressor"),
}


def by_hand(x, y, points, paths, rng):
    """Exact posterior sampling as someone might write it: the mechanism that `latent` is, too."""

    def kernel(a, b):
        return np.exp(-np.sqrt(np.square(a[:, None] - b[None]).sum(axis=-1)) / 0.4)

    gram = kernel(x, x) + 0.36 * np.eye(len(x))
    reach = kernel(x, points)
    mean = reach.T @ np.linalg.solve(gram, y)
    covariance = 0.64 * (kernel(points, points) - reach.T @ np.linalg.solve(gram, reach))
    values, vectors = np.linalg.eigh(covariance)
    return mean + rng.standard_normal((paths, len(points))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T


def always_the_same(x, y, points, paths, rng):
    """What scikit-learn does when no random_state is given."""
    del rng
    return clone(latent).fit(x, y).sample_y(points, paths).T


def with_the_answer(x, y, points, paths, rng):
    """A debugging aid that was forgotten: the first point's value is the nearest response."""
    drawn = by_hand(x, y, points, paths, rng)
    drawn[:, 0] = y[np.argmin(np.square(x - points[0]).sum(axis=1))]
    return drawn


def turned(x, y, points, paths, rng):
    """Points first, paths second."""
    return by_hand(x, y, points, paths + 1, rng).T


def broken(x, y, points, paths, rng):
    """NaN now and then."""
    drawn = by_hand(x, y, points, paths, rng)
    return np.where(rng.random() < 0.01, np.nan, drawn)


def vandal(x, y, points, paths, rng):
    """It sorts its arguments in place."""
    drawn = by_hand(x, y, points, paths, rng)
    x.sort(axis=0), y.sort(), points.sort(axis=0)
    return drawn


def make_latent():
    """A model that is made when it is asked for."""
    return regressor()


number = 7
