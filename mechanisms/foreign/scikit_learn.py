"""scikit-learn's ``GaussianProcessRegressor``: its kernel taken apart, its releases drawn by its own ``sample_y``."""

import warnings
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)

from ..arrays import Array
from ..base import Sampler
from ..data import Dataset
from ..errors import InputError
from .deployed import SMOOTHNESS, Reading, Reported

_SMOOTHNESS = {**SMOOTHNESS, np.inf: "rbf"}
_COMPARED = 32  # records at which a fitted model is compared with itself, fitted again
_NEGLIGIBLE = 1e-6  # of the noise: a second noise so small (as the default alpha is) does not show in a draw


class _Draws:
    """Draws by ``sample_y`` of one fitted model, with random numbers from the audit's generator."""

    def __init__(self, model: GaussianProcessRegressor, points: Array) -> None:
        self.model, self.points, self.jitter = model, points, 0.0
        self._source: np.random.Generator | None = None

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        if self._source is not rng:
            # One legacy generator on top of each source: it keeps a normal number back between calls.
            self._source, self._legacy = rng, np.random.RandomState(rng.bit_generator)
        with warnings.catch_warnings():  # of a covariance with rounding: whether the draws are right is measured
            warnings.simplefilter("ignore")
            drawn = self.model.sample_y(self.points, n_samples=releases * paths, random_state=self._legacy)
        return np.asarray(drawn, dtype=np.float64).T.reshape(releases, paths, len(self.points))


@dataclass(frozen=True, eq=False)
class ScikitLearnModel:
    """A ``GaussianProcessRegressor`` that is not fitted, with fixed hyperparameters."""

    regressor: GaussianProcessRegressor
    name: str = "sklearn"

    def fitted(self, data: Dataset) -> GaussianProcessRegressor:
        """The model fitted to `data`.

        Raises:
            InputError: scikit-learn refuses them, as it does noise levels of another number than there are rows.
        """
        try:
            return clone(self.regressor).fit(data.covariates, data.responses)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise InputError(f"scikit-learn cannot fit {len(data)} records: {error}") from None

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """``sample_y`` of the model fitted to `data`, at points ``(t, d)``."""
        return _Draws(self.fitted(data), points)

    def reported(self, data: Dataset, points: Array) -> Reported:
        """``predict`` of the model fitted to `data`."""
        mean, covariance = self.fitted(data).predict(points, return_cov=True)
        return Reported(np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64))


def read(thing: Any, *, public: Set[str] = frozenset()) -> Reading:
    """Take a regressor apart; it may be fitted, and is fitted anew for every dataset.

    Args:
        thing: The regressor.
        public: What the publisher states to have been chosen without the private data: "hyperparameters", "noise".

    Raises:
        InputError: It does something that no certificate covers; the message says what and what would help.
    """
    if not isinstance(thing, GaussianProcessRegressor):
        hint = ": what a pipeline learns of the private data is in the release" if hasattr(thing, "steps") else ""
        raise InputError(f"is a {type(thing).__name__}, not a GaussianProcessRegressor{hint}")
    if thing.normalize_y:
        raise InputError(
            "has normalize_y = True: it centres and scales by the mean and standard deviation of the private "
            "responses, which no certificate covers and no statement makes public; scale by public numbers instead"
        )
    if thing.n_targets not in (None, 1) or np.ndim(getattr(thing, "y_train_", ())) > 1:
        raise InputError("predicts several responses: audit one model a response")
    kernel = getattr(thing, "kernel_", None) or thing.kernel or RBF(1.0, "fixed")
    if "hyperparameters" not in public:
        _refuse_tuning(thing, kernel)
    _check_unchanged(thing)
    amplitude, base, white = _taken_apart(kernel)
    name, length_scale = _stationary(base)
    draws, noise = _noise(thing, white)
    per_row = np.ndim(noise) > 0
    if per_row and "noise" not in public:
        raise InputError(
            "has a noise level for each row, where certificates assume one ridge: use one alpha, or state "
            "release.public = ['noise'] if the levels were chosen without the private data; nothing is certified then"
        )
    unfitted = clone(thing).set_params(kernel=clone(kernel), optimizer=None)
    _check_fit(thing, unfitted)
    ridges = np.sqrt(np.asarray(noise, dtype=np.float64) / amplitude)
    return Reading(
        model=ScikitLearnModel(unfitted),
        kernel=name,
        length_scale=length_scale,
        ridge=float(np.min(ridges)),
        scale=float(np.sqrt(amplitude)),
        ridges=ridges if per_row else None,
        draws=draws,
        trained_on=(thing.X_train_, thing.y_train_) if hasattr(thing, "X_train_") else None,
        notes=(
            f"scikit-learn {sklearn.__version__}: {'latent' if draws == 'latent' else 'predictive'} draws of sample_y, "
            f"amplitude {amplitude:.6g}, noise variance {_range(noise)}",
            "sample_y is seeded with 0 unless random_state is given: called without it, every release is the same "
            "draw. This audit gives each release random numbers of its own; a deployment must do so, too",
        ),
    )


def _refuse_tuning(thing: GaussianProcessRegressor, kernel: Kernel) -> None:
    if thing.optimizer is not None and kernel.n_dims > 0:
        raise InputError(
            f"tunes {kernel.n_dims} hyperparameter(s) on the private data when it is fitted, which no certificate "
            "covers: set optimizer = None, or state release.public = ['hyperparameters'] if their values were chosen "
            "without the private data; they are then kept as they are"
        )


def _check_unchanged(thing: GaussianProcessRegressor) -> None:
    """Noise or kernel that were set after fitting are ignored by the fitted model, but would be used by ours."""
    if not hasattr(thing, "L_"):
        return
    gram = thing.kernel_(thing.X_train_)
    gram[np.diag_indices_from(gram)] += thing.alpha
    lower = np.tril(thing.L_)
    if not np.allclose(lower @ lower.T, gram, rtol=1e-7, atol=1e-10 * float(np.max(np.diag(gram)))):
        raise InputError(
            "was changed after it was fitted: its alpha or kernel_ are not those that its factor was made with, and "
            "the fitted model ignores them; fit it again, or give it unfitted"
        )


def _check_fit(thing: GaussianProcessRegressor, unfitted: GaussianProcessRegressor) -> None:
    """What is deployed is the fitted model; ours is fitted anew for every dataset, and must be the same."""
    if not hasattr(thing, "X_train_"):
        return
    at = thing.X_train_[:_COMPARED]
    told, ours = (
        one.predict(at, return_cov=True) for one in (thing, clone(unfitted).fit(thing.X_train_, thing.y_train_))
    )
    size = max(1e-300, float(np.abs(ours[0]).max()), float(np.abs(ours[1]).max()))
    off = max(float(np.abs(one - other).max()) for one, other in zip(told, ours, strict=True))
    if not off <= 1e-6 * size:
        raise InputError(
            "predicts something else than the same model fitted again to its own data: a part of it was changed by "
            "hand, or its fit does not repeat"
        )


def _taken_apart(kernel: Kernel) -> tuple[float, Kernel, float]:
    """Amplitude, the one kernel that it multiplies, and the variance of white noise."""
    amplitude, base, white = 0.0, None, 0.0
    for factor, kernels in _expanded(kernel):
        if len(kernels) == 1 and isinstance(kernels[0], WhiteKernel):
            white += factor * kernels[0].noise_level
        elif len(kernels) == 1 and base is None:
            amplitude, base = factor, kernels[0]
        else:
            raise InputError(
                f"has kernel {kernel}: one kernel times a constant, with or without a WhiteKernel added, is supported"
            )
    if base is None or not amplitude > 0:
        raise InputError(
            f"has kernel {kernel}, in which nothing correlates two places: there is no posterior to sample"
        )
    return amplitude, base, white


def _expanded(kernel: Kernel) -> list[tuple[float, list[Kernel]]]:
    """A kernel as a sum of products: the constant factor of each term, and its other kernels."""
    if isinstance(kernel, ConstantKernel):
        return [(float(kernel.constant_value), [])]
    if isinstance(kernel, Sum):
        return [*_expanded(kernel.k1), *_expanded(kernel.k2)]
    if isinstance(kernel, Product):
        return [
            (left * right, [*some, *others])
            for left, some in _expanded(kernel.k1)
            for right, others in _expanded(kernel.k2)
        ]
    if isinstance(kernel, Exponentiation | CompoundKernel):
        raise InputError(f"has kernel {kernel}: powers and compounds of kernels are not supported")
    return [(1.0, [kernel])]


def _stationary(base: Kernel) -> tuple[str, float]:
    """Name and length scale of an isotropic kernel that certificates cover."""
    if type(base) not in (RBF, Matern):
        reason = "is not stationary" if not base.is_stationary() else "is not among those that are supported"
        raise InputError(f"has kernel {base}, which {reason}: use RBF or Matern with nu 0.5, 1.5, 2.5")
    scales = np.atleast_1d(base.length_scale)
    if np.ptp(scales) > 1e-12 * scales.max():
        raise InputError(
            f"has the anisotropic kernel {base}: certificates assume one length scale; divide each covariate (and its "
            "side of the domain) by its own length scale, all of them public, and use length scale 1"
        )
    smoothness = getattr(base, "nu", np.inf)
    if smoothness not in _SMOOTHNESS:
        raise InputError(f"has Matern's nu = {smoothness:g}: 0.5, 1.5, 2.5 and inf are supported")
    return _SMOOTHNESS[smoothness], float(scales[0])


def _noise(thing: GaussianProcessRegressor, white: float) -> tuple[Literal["latent", "predictive"], Any]:
    """What is drawn, and the noise variance of the records: one number or one a row."""
    alpha = np.asarray(thing.alpha, dtype=np.float64)
    if not white:
        return "latent", alpha if alpha.size > 1 else float(alpha.reshape(-1)[0])
    if alpha.size > 1 or float(np.max(alpha)) > _NEGLIGIBLE * white:
        raise InputError(
            f"has a WhiteKernel of {white:g} and alpha = {_range(alpha)}: sample_y adds the noise of one to its draws "
            "but not that of the other; put all of it in one place"
        )
    return "predictive", white + float(np.max(alpha))


def _range(noise: Any) -> str:
    low, high = float(np.min(noise)), float(np.max(noise))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
