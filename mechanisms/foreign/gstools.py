"""GSTools' conditioned random fields, ``CondSRF``: its kriging read as a posterior, its draws made by itself.

With prior variance ``var``, correlation rho, nugget g and measurement error e of the records, kriging reports

    m(x) = k_x^T (K + e I)^-1 y,    s(x) = var + g - k_x^T (K + e I)^-1 k_x = v(x) + g,

the posterior mean and variance v of the function for noise variance e, and the nugget on top. A draw is

    f(x) = m(x) + sqrt(v(x) / var) W(x) + sqrt(g) z(x),    W(x) = sqrt(var / N) sum_i (a_i cos k_i x + b_i sin k_i x),

with ``a_i, b_i, z`` standard normal and wave numbers k_i from the spectrum. Given these, W(x) has variance ``var``
exactly, so that one released value is exactly ``N(m(x), v(x) + g)``. But over the seeds

    Cov[f(x), f(x')] = sqrt(v(x) v(x')) rho(x - x') + g [same value],

the prior's correlation in place of the posterior's, and several values together are a mixture of normals. A draw is
therefore audited as a black box. It can betray far more: W is everywhere as rough as the prior, so that the roughness
of a path gives v away, and with it where the records are; the finer the path, the better. (Exponential, Gaussian in one
and two dimensions have their k_i by inversion, all else by a Markov chain so short that rho is too high, by up to 0.02
with 1000 modes and 0.09 with 100.)

What is exact is conditioning by hand: draw a field of the prior at records and points together (by a Cholesky factor
of ``covariance(distances)``; if Gaussian, also by ``SRF(generator="Fourier")`` with a long period), krige ``y - field -
noise`` at the records by ``krige.Simple(..., cond_err=e)`` and add the result to the field at the points. Audit it as
``callable``. tests/test_gstools.py checks all of this.
"""

import copy
import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import kernels
from ..arrays import Array
from ..base import Sampler
from ..data import Dataset
from ..errors import InputError
from ..posterior import condition
from .deployed import Reading, Reported

_MATERN = {0.5: kernels.exponential, 1.5: kernels.matern32, 2.5: kernels.matern52}
_SAME_KERNEL = 1e-10  # largest difference of correlations
_SAME_KRIGING = 1e-6  # of a model that was not changed, in units of its prior
_MOST_RECORDS = 400  # at which covariances are compared for the report
_SEEDS = 2**32  # that GSTools accepts


def _package() -> Any:
    try:
        import gstools
    except ImportError:
        raise InputError("needs gstools: pip install 'gpleak[gstools]'") from None
    return gstools


class _Draws:
    """Fields of one ``CondSRF``, each with a seed from the audit's generator; it is kriged once."""

    def __init__(self, field: Any, points: Array) -> None:
        self.points, self.jitter = points, 0.0
        self._field = field
        field.set_pos(points.T, mesh_type="unstructured")

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        drawn = np.empty((releases * paths, len(self.points)))
        for path in drawn:
            path[...] = self._field(seed=int(rng.integers(_SEEDS)))
        return drawn.reshape(releases, paths, -1)


@dataclass(frozen=True, eq=False)
class GSToolsModel:
    """Simple kriging with mean 0 and the conditioned fields that GSTools makes of it; it holds no records.

    Attributes:
        covariance: A ``CovModel``.
        error: Measurement error, a variance: of all records, or one a row ``(n,)``.
        inverse: Which pseudo-inverse of the kriging matrix is used, "pinv" or "pinvh"; None for the inverse.
        modes: Number of wave numbers.
        sampling: How they are drawn: "auto", "inversion" or "mcmc".
    """

    covariance: Any
    error: float | Array
    inverse: Literal["pinv", "pinvh"] | None
    modes: int
    sampling: str
    name: str = "gstools"

    def kriging(self, data: Dataset) -> Any:
        """Kriging conditioned on `data`.

        Raises:
            InputError: GSTools cannot, as with another number of covariates or of measurement errors.
        """
        dim = self.covariance.dim
        if data.dimension != dim:  # it would reshape them
            raise InputError(f"the GSTools model has dim = {dim} but the data have {data.dimension} covariate(s)")
        try:
            return _package().krige.Simple(
                copy.deepcopy(self.covariance),
                data.covariates.T,
                data.responses,
                cond_err=self.error,
                pseudo_inv=self.inverse is not None,
                pseudo_inv_type=self.inverse or "pinv",
            )
        except (ValueError, np.linalg.LinAlgError) as error:
            raise InputError(f"GSTools cannot krige {len(data)} records: {error}") from None

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """``CondSRF`` conditioned on `data`, at points ``(t, d)``."""
        gs = _package()
        return _Draws(gs.CondSRF(self.kriging(data), mode_no=self.modes, sampling=self.sampling, seed=0), points)

    def reported(self, data: Dataset, points: Array) -> Reported:
        """Kriging mean and kriging variance of `data`."""
        return Reported(*self.kriging(data)(points.T, mesh_type="unstructured", store=False))


def read(thing: Any, *, public: Set[str] = frozenset()) -> Reading:
    """Take a conditioned field, or the kriging that one is made of, apart; it is kriged anew for every dataset.

    Args:
        thing: A ``gstools.CondSRF``, or a ``gstools.krige`` object.
        public: What the publisher states to have been chosen without the private data: "noise" matters here.

    Raises:
        InputError: GSTools is missing, or it does what the posterior of one kernel and one noise does not.
    """
    gs = _package()
    krige = thing.krige if isinstance(thing, gs.CondSRF) else thing
    if not isinstance(krige, gs.krige.Krige):
        hint = ": it is not conditioned on anything" if isinstance(thing, gs.SRF) else ""
        raise InputError(f"is a {type(thing).__name__}, not a gstools.CondSRF or a gstools.krige object{hint}")
    for part in (thing, krige, krige.model):
        if not type(part).__module__.startswith("gstools."):
            raise InputError(f"has a {type(part).__name__} from outside GSTools, whose code could do anything")
    _refuse_means(gs, krige)
    kernel = _kernel(gs, krige.model)
    draws, noise = _noise(krige, public)
    modes, sampling = _generator(gs, None if thing is krige else thing.generator)
    if callable(krige.pseudo_inv_type):
        raise InputError("inverts the kriging matrix by its own function: set pseudo_inv_type to 'pinv' or 'pinvh'")
    inverse = krige.pseudo_inv_type if krige.pseudo_inv else None
    model = GSToolsModel(copy.deepcopy(krige.model), noise, inverse, modes, sampling)
    data = Dataset(np.array(krige.cond_pos.T), np.array(krige.cond_val))
    _check_unchanged(krige, model, data)
    variance = float(krige.model.var)
    ridges = np.sqrt(np.asarray(noise) / variance)
    off = _covariance_off(data, kernel, ridges)
    return Reading(
        model=model,
        kernel=kernel.name,
        length_scale=kernel.length_scale,
        ridge=float(np.min(ridges)),
        scale=math.sqrt(variance),
        ridges=ridges if np.ndim(noise) else None,
        draws=draws,
        trained_on=(data.covariates, data.responses),
        approximate=(
            "CondSRF scales one field of the prior by the kriging standard deviation: every value has the posterior's "
            "mean and variance, but the correlation of two values is the prior's, not the posterior's (between two of "
            f"these records the covariance is off by up to {off:.2g} of the prior variance), and the roughness of a "
            "path tells where records are; condition by hand to draw from the posterior"
        ),
        notes=(
            f"gstools {gs.__version__}: {draws} draws of CondSRF with {krige.model.name}, var {variance:.6g}, nugget "
            f"{float(krige.model.nugget):.6g}, measurement error {_range(noise)}, {modes} modes",
            "variance, length scale and noise are taken as public: fitting a variogram to the private data leaves no "
            "trace in a covariance model and is covered by nothing",
            "CondSRF called without a seed repeats the field of the last call. This audit gives every path a seed of "
            "its own. There are 2^32 seeds, 65535 if gstools.random.MasterRNG makes them: whoever tries them all finds "
            "that of a path, and with it the data set; no epsilon holds against that, and this audit does not try it",
        ),
    )


def _refuse_means(gs: Any, krige: Any) -> None:
    if krige.unbiased or krige.drift_no:
        what = f"{krige.drift_no} drift term(s)" if krige.drift_no else "the mean"
        raise InputError(
            f"estimates {what} from the private responses ({type(krige).__name__} kriging, unbiased = "
            f"{krige.unbiased}), which no certificate covers: use gstools.krige.Simple with mean 0, after public "
            "numbers were subtracted from the responses"
        )
    if type(krige.normalizer) is not gs.normalizer.Normalizer:
        raise InputError(
            f"has the normalizer {type(krige.normalizer).__name__}, so that releases are not normal: transform the "
            "responses by a public function first, and what is released back; that is covered"
        )
    for what, value in (("mean", krige.mean), ("trend", krige.trend)):
        if callable(value) or (value is not None and np.any(np.asarray(value) != 0)):
            said = "a function" if callable(value) else value
            raise InputError(
                f"has {what} = {said}: a public one can be subtracted from the responses and added to what is "
                f"released, which costs nothing; set {what} = 0"
            )


def _kernel(gs: Any, model: Any) -> kernels.Kernel:
    """Our kernel of a covariance model, compared with it at all distances that matter."""
    if model.latlon:
        raise InputError(
            "has latlon = True, where distances are chords of a sphere: give positions in three dimensions, on the "
            "sphere, and a model with dim = 3"
        )
    if model.temporal:
        raise InputError("has temporal = True: make time a coordinate, divided by its public ratio, of a spatial model")
    if model.dim > 1 and np.any(np.abs(np.asarray(model.anis) - 1.0) > 1e-12):
        raise InputError(
            f"is anisotropic (anis = {np.asarray(model.anis).tolist()}, angles = {np.asarray(model.angles).tolist()}): "
            "certificates assume one length scale; rotate the covariates, divide each by its own public length scale, "
            "and use len_scale 1"
        )
    length = float(model.len_rescaled)
    if type(model) is gs.Exponential:
        kernel = kernels.exponential(length)
    elif type(model) is gs.Gaussian:  # exp(-h^2), h = distance / len_rescaled
        kernel = kernels.rbf(length / math.sqrt(2.0))
    elif type(model) is gs.Matern and model.nu in _MATERN:  # of sqrt(nu) h, where ours has sqrt(2 nu)
        kernel = _MATERN[model.nu](length * math.sqrt(2.0))
    else:
        nu = f" with nu = {model.nu:g}" if type(model) is gs.Matern else ""
        raise InputError(
            f"has covariance model {model.name}{nu}: Exponential, Gaussian and Matern with nu 0.5, 1.5 or 2.5 are "
            "supported"
        )
    distances = kernel.length_scale * np.concatenate([[0.0], np.geomspace(1e-6, 30.0, 400)])
    off = float(np.abs(model.covariance(distances) / model.var - kernel.of_distance(distances)).max())
    if not off <= _SAME_KERNEL:
        raise InputError(
            f"has covariance model {model.name} that is not the {kernel.name} kernel of length scale "
            f"{kernel.length_scale:g}: correlations differ by {off:.3g}; this version of GSTools is not understood"
        )
    return kernel


def _noise(krige: Any, public: Set[str]) -> tuple[Literal["latent", "predictive"], float | Array]:
    """What is drawn, and the noise variance of the records: one number or one a row."""
    nugget, error = float(krige.model.nugget), np.array(krige.cond_err, dtype=np.float64).reshape(-1)
    if krige.exact:
        raise InputError(
            "has exact = True: where a record lies, its private response itself is released; set exact = False, with "
            "the noise variance as cond_err"
        )
    if not np.all(error > 0):
        raise InputError(
            f"has measurement error {_range(error)}: without noise, fields go through the private responses; set "
            "cond_err to the noise variance of a response, a public number"
        )
    noise: float | Array = float(error[0]) if np.ptp(error) == 0 else error
    if np.ndim(noise) and "noise" not in public:
        raise InputError(
            "has a measurement error for each record, where certificates assume one: use one cond_err, or state "
            "release.public = ['noise'] if they were chosen without the private data; nothing is certified then"
        )
    if nugget == 0:
        return "latent", noise
    if np.ndim(noise) or abs(error[0] - nugget) > 1e-12 * nugget:
        raise InputError(
            f"has nugget {nugget:g} and measurement error {_range(error)}: draws get fresh noise of the nugget, which "
            "is not the records'; set nugget = 0 in the covariance model to release the function, or cond_err = "
            "'nugget' to release it with the records' noise"
        )
    return "predictive", nugget


def _generator(gs: Any, generator: Any) -> tuple[int, str]:
    """How many modes and how they are drawn; as by default where only kriging was given."""
    if generator is None:
        return 1000, "auto"
    if type(generator) is not gs.field.generator.RandMeth:
        raise InputError(
            f"has generator {type(generator).__name__}: RandMeth is the one for conditioned fields; audit a function "
            "that draws with another as callable"
        )
    return int(generator.mode_no), str(generator.sampling)


def _check_unchanged(krige: Any, model: GSToolsModel, data: Dataset) -> None:
    """Settings that were changed later are used by kriging anew, but not by what was kriged before."""
    at = (data.covariates[:32] + data.covariates[::-1][:32]) / 2.0
    old = copy.deepcopy(krige)(at.T, mesh_type="unstructured", store=False)
    new = model.reported(data, at)
    variance = model.covariance.var
    size = max(float(np.sqrt(variance)), float(np.abs(data.responses).max()))
    off = max(float(np.abs(old[0] - new.mean).max()) / size, float(np.abs(old[1] - new.covariance).max()) / variance)
    if not off <= _SAME_KRIGING:
        raise InputError(
            "was changed after its records were set: what it kriges is not what its covariance model and cond_err "
            "say; call krige.set_condition()"
        )


def _covariance_off(data: Dataset, kernel: kernels.Kernel, ridges: Array) -> float:
    """Largest difference between the covariance of draws and the posterior's, between records; prior variance 1."""
    some = slice(None, None, -(-len(data) // _MOST_RECORDS))
    few = Dataset(data.covariates[some], data.responses[some])
    ridge = np.broadcast_to(ridges, len(data))[some]
    covariance = condition(few, kernel=kernel, ridge=ridge).covariance(few.covariates, few.covariates)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    drawn = np.outer(spread, spread) * kernel(few.covariates, few.covariates)
    return float(np.abs(drawn - covariance).max())


def _range(noise: Any) -> str:
    low, high = float(np.min(noise)), float(np.max(noise))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
