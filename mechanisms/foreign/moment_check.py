"""Before anything is drawn: does a foreign model's mean and covariance agree with ours on these data?"""

import numpy as np

from ..arrays import Array
from ..data import Dataset
from ..errors import InputError
from .deployed import BlackBox, Deployed, TellsMoments

_MOST_POINTS = 64
_LOOSEST, _LOOSEST_OF_A_BLACK_BOX = 1e-3, 0.1
_SEED = 9


def check_moments(mechanism: Deployed | BlackBox, data: Dataset) -> None:
    """Compare the mean and covariance that a model reports with the law that is stated.

    Looked at: listed points, or records, places close to them and places anywhere in the domain; 64 at most. Nothing
    is checked of a model that reports neither.

    Raises:
        InputError: They differ; both are shown.
    """
    if not isinstance(mechanism.model, TellsMoments):
        return
    points = _points(mechanism, data)
    told, law = mechanism.model.reported(data, points), mechanism.path_law(data, points)
    if len(law.mean) != 1:
        raise InputError(
            f"{mechanism.name}: reports one posterior, but mechanism {mechanism.like.name} has one a round"
        )
    mean, covariance = law.mean[0], law.covariance[0]
    count = len(points)
    for what, values, shapes in (
        ("mean", told.mean, [(count,)]),
        ("covariance", told.covariance, [(count, count), (count,)]),
    ):
        if np.shape(values) not in shapes:
            raise InputError(
                f"{mechanism.name}: a posterior {what} of {count} points has shape {np.shape(values)}: it must be "
                f"{' or '.join(map(str, shapes))}"
            )
        if not np.isfinite(values).all():
            raise InputError(f"{mechanism.name}: a posterior {what} is NaN or infinite: the model fails on these data")
    spread = np.sqrt(law.prior_variance)
    tolerance = max(told.accuracy, _rounding(mechanism, data))
    allowed = _LOOSEST if isinstance(mechanism, Deployed) else _LOOSEST_OF_A_BLACK_BOX
    if not (told.accuracy >= 0.0 and tolerance <= allowed):
        raise InputError(
            f"{mechanism.name}: its moments can be compared to {tolerance:.2g} of the prior's only, which is no "
            "comparison: use more noise, or exact computations"
        )
    size = max(spread, float(np.abs(data.responses).max()))
    off = np.abs(told.mean - mean)
    if off.max() > tolerance * size:
        worst = int(off.argmax())
        raise InputError(
            f"{mechanism.name}: the posterior mean at point {worst} of the check is {told.mean[worst]:.6g} by the "
            f"model and {mean[worst]:.6g} by mechanism {mechanism.like.name} with {_parameters(mechanism)}: one of "
            "them is not what is deployed; compare kernel, noise and amplitude, and look for scaling or a mean function"
        )
    ours = covariance if told.covariance.ndim == 2 else np.diag(covariance)
    off = np.abs(told.covariance - ours)
    if off.max() > tolerance * law.prior_variance:
        at = np.unravel_index(int(off.argmax()), off.shape)
        kind = "variance" if len(set(at)) == 1 else "covariance"
        raise InputError(
            f"{mechanism.name}: the posterior {kind} at point(s) {', '.join(map(str, sorted(set(map(int, at)))))} of "
            f"the check is {told.covariance[at]:.6g} by the model and {ours[at]:.6g} by mechanism "
            f"{mechanism.like.name} with {_parameters(mechanism)}: one of them is not what is deployed; compare "
            "kernel, noise and amplitude, and latent with predictive draws"
        )


def _points(mechanism: Deployed | BlackBox, data: Dataset) -> Array:
    release, rng = mechanism.release, np.random.default_rng(_SEED)
    if release.points is not None:
        return release.points[:: -(-len(release.points) // _MOST_POINTS)]
    low, high = release.domain.sides.T
    records = data.covariates[:: -(-len(data) // 24)]
    near = records[:16] + 0.1 * release.kernel.length_scale * rng.standard_normal((len(records[:16]), len(low)))
    anywhere = low + (high - low) * rng.random((_MOST_POINTS - 40, len(low)))
    return np.concatenate([records, np.clip(near, low, high), anywhere])


def _rounding(mechanism: Deployed | BlackBox, data: Dataset) -> float:
    """Relative error of a solve in float64: the condition of the kernel matrix is at most ``1 + n / r^2``."""
    ridge = float(np.min(getattr(mechanism.like, "ridges", mechanism.release.ridge)))
    return float(4.0 * np.finfo(float).eps * (1.0 + len(data) / ridge**2))


def _parameters(mechanism: Deployed | BlackBox) -> str:
    release = mechanism.release
    return (
        f"kernel {release.kernel.name}, length_scale {release.kernel.length_scale:g}, ridge {release.ridge:g} and "
        f"scale {release.scale:g}"
    )
