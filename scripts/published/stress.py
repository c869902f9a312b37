"""The stress test: ten records on the line, a jump at 1/2, and the public parameters that the figures vary."""

import math
from dataclasses import dataclass

from gpleak import Centred, Domain, ExactPosterior, Exponential1D, Release, exponential

DELTA = 1e-3
RATES = (0.10, 0.01)  # false-positive rates at which attacks are reported
REGIME = Exponential1D()


@dataclass(frozen=True)
class Setting:
    """Public parameters of one release.

    Attributes:
        ridge: r, the noise's standard deviation over the kernel's.
        scale: sigma; infinite for the centred release, where the mean is drowned and the covariance left.
        paths: L.
        records: n; the published test has 10.
    """

    ridge: float
    scale: float
    paths: int = 1
    records: int = 10

    @property
    def mechanism(self) -> ExactPosterior | Centred:
        """What is released: exponential kernel of length scale 1 on [0, 1], responses within +-1."""
        centred = math.isinf(self.scale)
        release = Release(
            kernel=exponential(1.0),
            ridge=self.ridge,
            scale=1.0 if centred else self.scale,
            domain=Domain([[0.0, 1.0]]),
            response_bound=1.0,
            records=self.records,
            paths=self.paths,
        )
        return Centred(release) if centred else ExactPosterior(release)
