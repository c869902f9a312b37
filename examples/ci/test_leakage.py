"""What the publisher claims of its maps, held against the maps that it draws."""

import pytest
from publish import STATED, Publisher, wells

from gpleak import ExactPosterior
from gpleak.mechanisms.foreign import Deployed

MAPS = Deployed(Publisher(), ExactPosterior(STATED))  # drawn by this code, stated to be exact posterior sampling


def test_the_maps_keep_the_claim(leakage):
    leakage.check(MAPS, wells(), claimed_epsilon=2.5, delta=1e-3)


@pytest.mark.leakage(budget="nightly")
def test_the_maps_keep_the_certificate(leakage):
    leakage.check(MAPS, wells(), claimed_epsilon="certified", delta=1e-3)
