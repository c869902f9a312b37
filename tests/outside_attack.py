"""Attacks written outside the package: ``outside_attack:Mean`` in full, and one that is none."""

import numpy as np

from gpleak.attacks import FeatureAttack


class _Plain:
    notes = ("the mean itself",)

    def __init__(self, sign):
        self.sign = sign

    def score(self, features):
        return self.sign * features[:, 0]


class Mean(FeatureAttack):
    """The mean of the values at the target, turned so that shadows with the record have more of it."""

    name, sees = "mean", "values"

    def __init__(self, release):
        self.paths = release.paths

    def features(self, releases):
        return releases.values.mean(axis=-1, keepdims=True)

    def fit(self, member, nonmember):
        return _Plain(np.sign(member.mean() - nonmember.mean()))


class Broken(Mean):
    """It scores NaN."""

    def features(self, releases):
        return np.full((*releases.values.shape[:-1], 1), np.nan)


class Nothing:
    """No attack."""

    name = "nothing"

    def __init__(self, release):
        self.release = release
