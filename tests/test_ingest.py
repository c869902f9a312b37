"""Reading private tables: strict, and silent about what the cells say."""

import hashlib

import numpy as np
import pytest

from gpleak.audit.ingest import Format, read_table
from gpleak.mechanisms import InputError

XY = ["x", "y"]


@pytest.fixture
def write(tmp_path):
    def writer(text, encoding="utf-8", name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return writer


def test_plain_file(write):
    path = write("x,other,y\n1,a,-2.5\n3e2,b,.5\n")
    table = read_table(path, ["y", "x"], Format())
    assert table.values.tolist() == [[-2.5, 1.0], [0.5, 300.0]]
    assert table.lines == (2, 3)
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_separators_line_ends_and_spaces(write, separator, ending):
    text = ending.join(separator.join(row) for row in (("x", " y "), (" 1", "2 "), ("3", '"4"'))) + ending
    assert read_table(write(text), XY, Format()).values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_case_19a_byte_order_mark(write):
    table = read_table(write("lat,lon,y\n51.5,-0.12,0.3\n", "utf-8-sig"), ["lat", "lon", "y"], Format())
    assert table.values.tolist() == [[51.5, -0.12, 0.3]]


HEADLESS = "51.50,-0.12,0.3\n51.51,-0.13,0.4\n51.52,-0.14,0.5\n"


def test_case_19b_no_header(write):
    """An error, or names given and n = 3; never 2."""
    path = write(HEADLESS)
    with pytest.raises(
        InputError, match=r"no column 'lat', and there are numbers in its first line.*data\.header"
    ) as error:
        read_table(path, ["lat", "lon", "y"], Format())
    assert "51.5" not in str(error.value)  # the first line may be a private record
    named = read_table(path, ["lat", "lon", "y"], Format(header=("lat", "lon", "y")))
    assert named.values.shape == (3, 3)
    assert named.lines == (1, 2, 3)
    assert read_table(path, ["0", "2"], Format(header=False)).values.shape == (3, 2)


@pytest.mark.parametrize(
    "text",
    [
        "51.5N;SW1A 1AA;GBP 450000\n51.6N;SW1A 2AA;GBP 450001\n",
        'Alice Smith,"51,5074","0,3"\nBob Jones,"51,5075","0,4"\n',
        "$0.10,$0.5\n$0.20,$0.6\n",
        "Alice,Smith,London\nBob,Jones,York\n",
    ],
)
def test_the_first_line_is_never_shown(write, text):
    """It may be a private record, however it is written."""
    with pytest.raises(InputError, match=r"no column 'x'") as error:
        read_table(write(text), XY, Format())
    message = str(error.value).removeprefix(str(write(text)))
    for cell in ("51", "SW1A", "450000", "Alice", "Smith", "0.1", "London"):
        assert cell not in message


def test_case_19c_decimal_commas(write):
    """``51,5074;-0,1278;1.250,5``: only under an explicit option, else an error with line and column."""
    path = write("lat;lon;y\n51,5074;-0,1278;1.250,5\n")
    with pytest.raises(InputError, match=r"line 2, column 'lat': is not a number.*data\.decimal"):
        read_table(path, ["lat", "lon", "y"], Format())
    with pytest.raises(InputError, match="line 2, column 'y'"):
        read_table(path, ["lat", "lon", "y"], Format(decimal=","))
    both = read_table(path, ["lat", "lon", "y"], Format(decimal=",", thousands="."))
    assert both.values.tolist() == [[51.5074, -0.1278, 1250.5]]


def test_case_19c_thousands_never_swallow_a_decimal_comma(write):
    """pandas reads "51,5074" as 515074 with thousands=","; here a group must have three digits."""
    path = write("lat;y\n51,5074;1,250\n")
    with pytest.raises(InputError, match="line 2, column 'lat'"):
        read_table(path, ["lat", "y"], Format(thousands=","))
    grouped = write("lat;y\n1,234,567.5;1,250\n", name="grouped.csv")
    assert read_table(grouped, ["lat", "y"], Format(thousands=",")).values.tolist() == [[1234567.5, 1250.0]]


def test_case_19d_quoted_and_ambiguous(write):
    path = write('lat,y\n"51,5074","1,250"\n')
    with pytest.raises(InputError, match="line 2, column 'lat': is not a number"):
        read_table(path, ["lat", "y"], Format())


def test_header_less_file_with_two_readings(write):
    """Commas may be separators or decimal marks: say which."""
    path = write("1,5;2,5\n3,5;4,5\n")
    with pytest.raises(InputError, match=r"more than one separator.*data\.separator"):
        read_table(path, ["0", "1"], Format(header=False, decimal=","))
    table = read_table(path, ["0", "1"], Format(header=False, decimal=",", separator=";"))
    assert table.values.tolist() == [[1.5, 2.5], [3.5, 4.5]]


@pytest.mark.parametrize(
    "cell", ["", "NA", "nan", "NaN", "inf", "-inf", "1_000", "0x1", "1 000", "١", "1e", "--1", "1,0"]
)
def test_cells_that_are_not_numbers_are_named_by_line(write, cell):
    path = write(f"x,y\n1,2\n3,'{cell}'\n5,6\n".replace("'", '"'))
    problem = "is empty" if not cell else "is not a number"
    with pytest.raises(InputError, match=f"line 3, column 'y': {problem}") as error:
        read_table(path, XY, Format())
    assert not cell or repr(cell) not in str(error.value)


def test_many_bad_lines_are_counted(write):
    path = write("x,y\n" + "1,a\n" * 9)
    with pytest.raises(InputError, match="line 2, 3, 4, 5, 6 and 4 more"):
        read_table(path, XY, Format())


def test_line_numbers_survive_blank_lines_and_quoted_line_ends(write):
    path = write('x,note,y\n1,"two\nlines",2\n\n3,,oops\n')
    with pytest.raises(InputError, match="line 5, column 'y'"):
        read_table(path, XY, Format())
    assert read_table(path, ["x"], Format()).lines == (3, 5)


def test_ragged_lines_are_refused(write):
    with pytest.raises(InputError, match="line 3: has 3 cells where 2 columns are named"):
        read_table(write("x,y\n1,2\n1,2,3\n"), XY, Format())
    with pytest.raises(InputError, match="line 2: has 1 cells"):
        read_table(write("x,y\n1\n"), XY, Format())


def test_overflow_is_refused(write):
    with pytest.raises(InputError, match="line 2, column 'x': is too large"):
        read_table(write("x,y\n1e999,2\n"), XY, Format())


def test_missing_things(write, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "none.csv", XY, Format())
    with pytest.raises(InputError, match="no column 'y' among its 2: correct the name"):
        read_table(write("x,z\n1,2\n"), XY, Format())
    with pytest.raises(InputError, match=r"no column 'price' among its 2: did you mean 'pryce'\?"):
        read_table(write("x,pryce\n1,2\n"), ["price"], Format())
    with pytest.raises(InputError, match=r"cannot be read .*check release\.points"):
        read_table(tmp_path / "none.csv", XY, Format(), key="release.points")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "nul\0.csv", XY, Format())
    with pytest.raises(InputError, match="is empty"):
        read_table(write(""), XY, Format())
    with pytest.raises(InputError, match="has no records"):
        read_table(write("x,y\n"), XY, Format())
    with pytest.raises(InputError, match="not UTF-8"):
        read_table(write(b"x,y\n\xff\xfe,1\n"), XY, Format())
    with pytest.raises(InputError, match="not valid CSV"):
        read_table(write('x,y\n"1,2\n'), XY, Format())


def test_a_column_named_twice_is_refused(write):
    with pytest.raises(InputError, match="names column 'x' twice"):
        read_table(write("x,y,x\n1,2,3\n"), XY, Format())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": ".."}, "decimal must be one mark"),
        ({"decimal": "5"}, "decimal must be one mark"),
        ({"thousands": "x"}, "thousands must be one mark"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
    ],
)
def test_bad_formats_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Format(**options)


def test_values_are_exactly_those_of_float(write):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(200) * 10.0 ** rng.integers(-300, 300, 200)
    path = write("x\n" + "\n".join(repr(float(value)) for value in values))
    assert np.array_equal(read_table(path, ["x"], Format()).values[:, 0], values)
