"""The map of private records: column names are a user's, of any characters, and must neither break nor deceive."""

import re

import numpy as np
import pytest

from gpleak.reports.map import map_drawing, visible

PLACES = np.random.default_rng(0).random((6, 2))
EPSILON = [0.1, 0.5, 0.3, 0.2, 0.9, 0.4]
RECORD = {"records": [{"epsilon_exact": value} for value in EPSILON]}


def drawn(*columns):
    return map_drawing(RECORD, PLACES[:, : len(columns)], columns)


@pytest.mark.parametrize("columns", [("cost_$", "tax_$"), ("$a^$ $", "x"), ("$\\nope$",), ("$x$", "$y_$"), ("a\\b",)])
def test_a_dollar_is_a_dollar(columns):
    drawing = drawn(*columns)
    assert drawing.svg.startswith("<svg ")
    assert drawing.png.startswith(b"\x89PNG")
    axes = drawing.figure.axes[0]
    assert [axes.get_xlabel(), axes.get_ylabel()][: len(columns)] == list(columns)
    assert not axes.xaxis.label.get_parse_math()
    assert list(drawing.numbers) == ["record", *columns, "epsilon_exact"]


@pytest.mark.parametrize(
    ("columns", "headings"),
    [
        (("east", "north"), ("east", "north")),
        (("record", "epsilon_exact"), ("covariate_record", "covariate_epsilon_exact")),
        (("epsilon_exact",), ("covariate_epsilon_exact",)),
        (("record", "covariate_record"), ("covariate_covariate_record", "covariate_record")),
        (("covariate_record", "record"), ("covariate_record", "covariate_covariate_record")),
        (("a\x00", "a[U+0000]"), ("a[U+0000]", "covariate_a[U+0000]")),
    ],
)
def test_no_column_of_the_file_overwrites_another(columns, headings):
    numbers = drawn(*columns).numbers
    assert list(numbers) == ["record", *headings, "epsilon_exact"]
    assert numbers["record"].tolist() == list(range(6))
    assert numbers["epsilon_exact"].tolist() == EPSILON
    assert np.array_equal(numbers[list(headings)], PLACES[:, : len(columns)])


def test_control_and_bidi_characters_are_spelled_out():
    marks = [*map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0x1B, 0x0A, 0x85))]
    for mark in marks:
        drawing = drawn(f"x{mark}y", f"{mark}<b>--></svg>")
        told = drawing.svg + drawing.csv
        assert mark == "\n" or mark not in told
        assert f"x[U+{ord(mark):04X}]y" in told
        assert "<b>" not in drawing.svg
    assert visible("Länge é 経度 α (km)") == "Länge é 経度 α (km)"
    assert not re.search(r"[^\x20-\x7e]", visible("\ud800\u2028\u200b"))
