"""What the whole function would betray, beside the listed points of it that are released."""

from dataclasses import replace

from ..mechanisms import (
    Centred,
    Dataset,
    ExactPosterior,
    Mechanism,
    Noised,
    NumericalError,
    PerRowNoise,
    Predictive,
    Thompson,
)
from ..mechanisms.foreign import stated_by
from .exposure import Exposure, exposure


def whole_function(mechanism: Mechanism) -> Mechanism | None:
    """The stated mechanism with its paths released everywhere; None where that is no mechanism or already so.

    Predictive draws are values of the latent function with noise of their own: the function itself is what they sample.
    """
    stated = stated_by(mechanism)
    if stated is None or stated.release.points is None:
        return None
    everywhere = replace(stated.release, points=None)
    if type(stated) is Predictive:
        return ExactPosterior(everywhere)
    if type(stated) in (ExactPosterior, Noised, Centred, PerRowNoise, Thompson):
        return replace(stated, release=everywhere)  # type: ignore[type-var]
    return None


def exposure_everywhere(mechanism: Mechanism, data: Dataset, replacements: Dataset, delta: float) -> Exposure | None:
    """Exact epsilon of every record if the paths were released everywhere.

    None where that is not another release, or where float64 cannot say it (no verdict rests on it).
    """
    whole = whole_function(mechanism)
    if whole is None:
        return None
    try:
        return exposure(whole.leave_one_out(data, replacements), delta, paths=whole.release.paths)
    except NumericalError:
        return None
