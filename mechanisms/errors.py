"""What gpleak raises when it cannot go on."""


class InputError(ValueError):
    """Something the user gave is not acceptable; the message says the value, the rule and the remedy."""


class RecordError(InputError):
    """Some records break a rule of the release.

    Attributes:
        rows: Their 0-based rows.
        rule: What they break, to be read after "record 3" or "line 5".
    """

    def __init__(self, rows: list[int], rule: str) -> None:
        super().__init__(f"record {shortened(rows)} {rule}")
        self.rows = rows
        self.rule = rule


def shortened(numbers: list[int], most: int = 5) -> str:
    """The first few of a list of numbers, as text: ``3, 7, 9 and 41 more``."""
    shown = ", ".join(str(number) for number in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"


def brief(text: str, most: int = 60) -> str:
    """The beginning of a long text, for a message."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class NumericalError(ArithmeticError):
    """A computation could not reach the accuracy it promises; nothing was returned in its place."""
