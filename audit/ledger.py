"""One significance for a whole audit, and who spent what of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..mechanisms import InputError

_FIDELITY_SHARE = 0.2  # of the whole; its checks are sharp at any level, the attacks need theirs


@dataclass(frozen=True)
class Expense:
    """What one test may spend.

    Attributes:
        test: "fidelity", or the adversary of an attack.
        record: 0-based row of the attacked record; None where no single record is attacked.
        significance: Probability with which this test is wrong, corrected for all that follows.
        thresholds: Thresholds that share it.
        directions: Directions of the inequality that share it.
        looks: Looks at the trials that share it; None for any number.
    """

    test: str
    record: int | None
    significance: float
    thresholds: int
    directions: int
    looks: int | None


@dataclass(frozen=True)
class Ledger:
    """All tests of an audit. Their significances add up to no more than the whole (union bound).

    Attributes:
        significance: Of the whole audit.
        expenses: One entry a test.

    Raises:
        InputError: More is spent than there is.
    """

    significance: float
    expenses: tuple[Expense, ...]

    def __post_init__(self) -> None:
        if self.spent > self.significance * (1.0 + 1e-12):
            raise InputError(f"the tests spend {self.spent:g} of a significance of {self.significance:g}: share it")

    @property
    def spent(self) -> float:
        """Sum of all entries."""
        return sum(expense.significance for expense in self.expenses)

    def share(self, test: str) -> float:
        """What one test of a kind may spend: all attacks may spend alike."""
        return next(expense.significance for expense in self.expenses if expense.test == test)


def open_ledger(
    significance: float, attacks: Sequence[tuple[str, int | None]], *, fidelity: bool, looks: int | None
) -> Ledger:
    """Share a significance: a fifth to the fidelity test where there is one, the rest evenly to the attacks.

    Directions and looks cost nothing: both directions of the Clopper-Pearson bound follow from the same two limits,
    the betting sequence averages both and holds at all looks together.

    Args:
        significance: Of the whole audit.
        attacks: Adversary and record of each attack.
        fidelity: Whether there is a fidelity test.
        looks: How often each attack is judged: 1, or None for any number.
    """
    whole = _FIDELITY_SHARE * significance if fidelity else 0.0
    each = (significance - whole) / len(attacks)
    first = [Expense("fidelity", None, whole, thresholds=0, directions=2, looks=1)] if fidelity else []
    others = [Expense(name, record, each, thresholds=1, directions=2, looks=looks) for name, record in attacks]
    return Ledger(significance, (*first, *others))
