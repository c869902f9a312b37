"""This test fails: leave it out of your own repository. It shows what a failing log says."""

from publish import STATED, VarianceForScale, wells

from gpleak import ExactPosterior
from gpleak.mechanisms.foreign import Deployed


def test_the_scale_is_a_standard_deviation(leakage):
    broken = Deployed(VarianceForScale(), ExactPosterior(STATED))
    leakage.check(broken, wells(), claimed_epsilon=2.5, delta=1e-3)
