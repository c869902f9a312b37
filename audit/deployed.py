"""From what is deployed to a mechanism: the model is found, read, completed by the configuration and checked."""

import hashlib
import io
import sys
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..mechanisms import (
    Centred,
    Dataset,
    ExactPosterior,
    InputError,
    Mechanism,
    Noised,
    PerRowNoise,
    Predictive,
    Release,
)
from ..mechanisms.foreign import (
    BlackBox,
    Deployed,
    Reading,
    Statement,
    check_moments,
    function,
    gpytorch,
    gstools,
    scikit_learn,
)
from .plugins import load_outside, registered
from .release_section import ReleaseConfig

Draws = Literal["latent", "predictive"]

_SAME = 1e-6  # relative, between a parameter in the configuration and in the model
_MADE_UP, _MOST_MADE_UP = 10, 60  # seed of records that are made up, and how many at most
_PARTS = {"sklearn": "fit", "gpytorch": "likelihood", "gstools": "model"}  # what a model has and a function has not
_FILES = (".joblib", ".pkl", ".pickle")
_MODEL_GROUP = "gpleak.models"
_STATED: dict[str, Callable[[Release], Mechanism]] = {
    "posterior": ExactPosterior,
    "noised": Noised,
    "predictive": Predictive,
    "centred": Centred,
}


def read_deployed(section: ReleaseConfig, *, folder: Path, allow_code: bool, data: Dataset | None) -> Reading:
    """What an adapter reads off the model that the configuration names.

    Args:
        section: ``[release]``, with an adapter as its mechanism.
        folder: Of the configuration.
        allow_code: Whether the model's code may be run.
        data: The private records, to see whether a fitted model was fitted to them; None where there are none.

    Raises:
        InputError: The model cannot be loaded, does something that no certificate covers, or was fitted to other data.
    """
    name, public = section.model or "", frozenset(section.public)
    thing, code = _load(name, folder=folder, allow_code=allow_code)
    try:
        made = thing if section.mechanism == "callable" else _made(thing, _PARTS[section.mechanism])
        reading = read_by(section.mechanism, made, public=public, draws=section.draws)
    except InputError as error:
        raise InputError(f"release.model = {name!r}: {error}") from None
    check_statements(reading, draws=section.draws, stated=section.stated, key="release.")
    if data is not None and reading.trained_on is not None:
        check_same_data(name, data, *reading.trained_on)
    return replace(reading, code=code)


def read_by(adapter: str, model: Any, *, public: Set[Statement], draws: Draws | None) -> Reading:
    """What the adapter of that name reads off a model; `InputError` where it does what no certificate covers."""
    if adapter == "sklearn":
        return scikit_learn.read(model, public=public)
    if adapter == "gpytorch":
        return gpytorch.read(model, public=public, draws=draws or "latent")
    if adapter == "gstools":
        return gstools.read(model, public=public)
    return function.read(model)


def check_statements(reading: Reading, *, draws: str | None, stated: str | None, key: str) -> None:
    """What is stated of a model against what was read off it; `key` stands before the names of parameters.

    Raises:
        InputError: They contradict each other, or draws are predictive and nobody says so.
    """
    if reading.approximate is not None and stated is not None:
        raise InputError(
            f"{key}stated = {stated!r}, but this is not that mechanism: {reading.approximate}; leave it out, and "
            "state the epsilon that you claim, audit.claimed_epsilon"
        )
    if reading.draws is None or reading.draws == draws:
        return
    if draws is not None:
        raise InputError(f"{key}draws = {draws!r} but the model's draws are {reading.draws}: correct it")
    if reading.draws == "predictive":
        raise InputError(
            "the model's draws are predictive (the function and fresh noise on every value), not latent values of the "
            f"function: if that is what is released, state {key}draws = 'predictive'; else take the noise out of what "
            "is drawn (scikit-learn: use alpha in place of a WhiteKernel)"
        )


def _load(name: str, *, folder: Path, allow_code: bool) -> tuple[Any, str]:
    """The object behind ``module:object``, or in a file that joblib or pickle wrote; and a hash of the file."""
    key = "release.model"
    if Path(name).suffix not in _FILES:
        thing = load_outside(name, group=_MODEL_GROUP, key=key, folder=folder, allow_code=allow_code)
        module = registered(_MODEL_GROUP).get(name, name).partition(":")[0]
        file = getattr(sys.modules.get(module), "__file__", None)
        return thing, "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    if not allow_code:
        raise InputError(f"{key} = {name!r}: loading it can run any code; if you trust it, pass --allow-code")
    import joblib  # comes with scikit-learn

    try:
        raw = (folder / name).read_bytes()
        return joblib.load(io.BytesIO(raw)), hashlib.sha256(raw).hexdigest()
    except Exception as error:
        raise InputError(f"{key} = {name!r}: cannot be loaded ({type(error).__name__})") from error


def _made(thing: Any, part: str) -> Any:
    """The model itself, or what a function without arguments makes."""
    if isinstance(thing, type) or hasattr(thing, part) or not callable(thing):
        return thing
    try:
        return thing()
    except Exception as error:  # its text may quote private data
        raise InputError(f"its code failed ({type(error).__name__}); set GPLEAK_DEBUG=1 to see where") from error


def check_same_data(name: str, data: Dataset, covariates: Any, responses: Any) -> None:
    """Raise `InputError` unless what a model was fitted to are the private records, in their order."""
    covariates, responses = (
        np.asarray(covariates, dtype=np.float64),
        np.asarray(responses, dtype=np.float64).reshape(-1),
    )
    covariates = covariates.reshape(len(covariates), -1)
    if covariates.shape == data.covariates.shape and len(responses) == len(data):
        close = np.allclose(covariates, data.covariates, rtol=1e-6) and np.allclose(
            responses, data.responses, rtol=1e-6
        )
        if close:
            return
    raise InputError(
        f"release.model = {name!r}: was fitted to {len(covariates)} records that are not those of data.file, which has "
        f"{len(data)}: give the data that it was fitted to, in the same order, or the model before it is fitted"
    )


def with_parameters(section: ReleaseConfig, reading: Reading) -> ReleaseConfig:
    """``[release]`` completed by what was read.

    Raises:
        InputError: Something is stated differently in both, or in neither.
    """
    change: dict[str, Any] = {}
    for key in ("kernel", "length_scale", "ridge", "scale"):
        said, found = getattr(section, key), getattr(reading, key)
        if found is None:
            if said is None and key != "scale":
                raise InputError(
                    f"release.{key} is missing: it cannot be read off a function; set it to what an adversary would "
                    "take the release for"
                )
        elif said is None:
            change[key] = found
        elif said != found and (key == "kernel" or abs(said - found) > _SAME * abs(found)):
            raise InputError(
                f"release.{key} = {said!r} but the model has {found if key == 'kernel' else format(found, '.10g')}: "
                f"leave it out, or correct the model (a standard deviation where a variance is meant?)"
            )
    return section.model_copy(update=change)


def as_mechanism(reading: Reading, section: ReleaseConfig, release: Release) -> Deployed | BlackBox:
    """A deployed model beside the mechanism that it is stated, or else taken, to be.

    Raises:
        InputError: The configuration states what the model cannot be.
    """
    predictive = (reading.draws or section.draws) == "predictive"
    likely = "noised" if release.prior_noise else "predictive" if predictive else "posterior"
    like: Mechanism
    if reading.ridges is not None:
        if section.stated not in (None, "posterior") or predictive:
            raise InputError("a model with a noise level for each row can be stated to be 'posterior' only")
        like = PerRowNoise(release, reading.ridges)
    elif reading.draws is not None and section.stated not in (None, likely):
        raise InputError(
            f"release.stated = {section.stated!r} but the model's draws are those of {likely!r}: leave it out"
        )
    else:
        like = _STATED[section.stated or likely](release)
    if section.stated is None and (reading.draws is None or reading.approximate):
        why = () if reading.approximate is None else (reading.approximate,)
        return BlackBox(reading.model, like, (*reading.notes, *why), reading.code)
    return Deployed(reading.model, like, reading.notes, reading.code)


def check_deployed(mechanism: Mechanism, data: Dataset, *, claimed: float | None) -> None:
    """Before the audit of a deployed model starts: something is claimed, and its moments are those of the law.

    Raises:
        InputError: Nothing is certified or claimed, a black box has no points to be looked at, or mean or covariance
            differ (both are shown).
    """
    if not isinstance(mechanism, Deployed | BlackBox):
        return
    if claimed is None and (isinstance(mechanism, BlackBox) or type(mechanism.like) is PerRowNoise):
        raise InputError(
            "nothing is certified of this model: state the epsilon that is claimed of it, audit.claimed_epsilon, or "
            "(if it is exact) what it is, release.stated"
        )
    check_black_box(mechanism)
    check_moments(mechanism, data)


def check_black_box(mechanism: Mechanism) -> None:
    """Raise `InputError` for a black box without points: two values might be innocent where a path is not."""
    if isinstance(mechanism, BlackBox) and mechanism.release.points is None:
        raise InputError(
            "a black box can only be looked at where it is released: list release.points, such as {shape = [20, 20]}"
        )


def check_without_data(mechanism: Mechanism) -> None:
    """The same comparison of moments on made-up records, for what is certified without the private ones.

    Raises:
        InputError: Mean or covariance differ (both are shown).
    """
    if not isinstance(mechanism, Deployed):
        return
    release, rng = mechanism.release, np.random.default_rng(_MADE_UP)
    count = release.records if type(mechanism.like) is PerRowNoise else min(release.records, _MOST_MADE_UP)
    low, high = release.domain.sides.T
    covariates = low + (high - low) * rng.random((count, release.domain.dimension))
    check_moments(mechanism, Dataset(covariates, release.response_bound * rng.uniform(-1.0, 1.0, count)))
