"""Times in COPY lines, read by compiled code: every other value is left as it is."""

import datetime
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stage.instants import Instants, loaded
from app.stage.request import Instant
from tests.fix_lane import ROOT

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
#: exact as a floating-point number
MOST = 1 << 53


@pytest.fixture(scope="module")
def instants() -> Instants:
    """The compiled function."""
    return loaded()


def read(instants: Instants, rows: list[list[str]], order: list[int], *which: tuple[int, int]) -> list[list[str]]:
    """The values of the lines that come back; `which`: index and unit."""
    lines = pa.array(["\t".join(row) + "\n" for row in rows], pa.string())
    wanted = [Instant(index, "", unit) for index, unit in which]
    found = instants.lines(lines, np.array(order, np.int64), wanted)
    assert found is not None
    found.validate(full=True)
    return [line.removesuffix("\n").split("\t") for line in found.to_pylist()]


def one(instants: Instants, text: str, unit: int = 0) -> int | None:
    """Microseconds of a text, None where it is left."""
    ((left, micros),) = read(instants, [[text]], [0], (0, unit))
    assert (left == "\\N") == (micros != "\\N") or text == "\\N"
    assert left in ("\\N", text)
    return None if micros == "\\N" else int(micros)


def micros_of(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


@given(
    moment=st.datetimes(datetime.datetime(1000, 1, 1), timezones=st.just(UTC)),
    digits=st.integers(0, 6),
)
def test_every_time_of_debezium(moment: datetime.datetime, digits: int) -> None:
    """As Debezium writes it; what is not exact as a floating-point number is left."""
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    fraction = f".{moment.microsecond:06}"[: digits + 1] if digits else ""
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
    expected = micros_of(moment)
    assert one(loaded(), text) == (expected if abs(expected) < MOST else None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\\N",
        "infinity",
        "0999-12-31T23:59:59Z",
        "0044-03-15T00:00:00Z",
        "-0044-03-15T00:00:00Z",
        "+10000-01-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2025-04-31T00:00:00Z",
        "2025-00-01T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-01-00T00:00:00Z",
        "2025-01-32T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z",
        "2016-12-31T23:59:60Z",
        "2025-01-01T00:00:00",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00.1234567Z",
        "2025-01-01T00:00:00+00:00",
        "2025-01-01T00:00:00.12+01",
        "2025-01-01 00:00:00Z",
        "2025-01-01T00:00:00z",
        "2025-1-01T00:00:000Z",
        "2025-01-01T00:00:0aZ",
        "2025-01-01T00:00:00.12 4Z",
        "20250101T000000.0000Z",
        "\uff12025-01-01T00:00:00Z",
        "a\\tb-01-01T00:00:00Z",
        "now",
        "2255-06-05T23:47:34.740992Z",
    ],
)
def test_every_other_text_is_left(instants: Instants, text: str) -> None:
    """Postgres reads it, or refuses it."""
    assert one(instants, text) is None


def test_the_last_time_that_is_exact(instants: Instants) -> None:
    assert one(instants, "2255-06-05T23:47:34.740991Z") == MOST - 1
    assert one(instants, "1684-07-28T00:12:25.259009Z") == 1 - MOST
    assert one(instants, "1684-07-28T00:12:25.259008Z") is None


@given(number=st.integers(-(1 << 64), 1 << 64), unit=st.sampled_from([1, 1000]))
def test_every_number(number: int, unit: int) -> None:
    found = one(loaded(), str(number), unit)
    is_small = abs(number) < MOST // unit and len(str(abs(number))) <= 16
    assert found == (number * unit if is_small else None)


@pytest.mark.parametrize("text", ["", "-", "\\N", "1.5", "1e3", " 1", "1 ", "--1", "+1", "2025-01-01T00:00:00Z"])
def test_what_is_no_integer_is_left(instants: Instants, text: str) -> None:
    assert one(instants, text, 1) is None


VALUE = st.one_of(
    st.text(st.characters(exclude_characters="\t\n\r\\", exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(["2025-01-01T00:01:31.549495Z", "1969-12-31T23:59:59.9Z", "\\N", "a\\\\b", "x\\ty", "", "17"]),
)


@given(data=st.data(), width=st.integers(1, 7), height=st.integers(1, 12))
def test_all_else_of_a_line_is_kept(data: st.DataObject, width: int, height: int) -> None:
    """Wherever the times are, and in whatever order the lines are wanted."""
    rows = [data.draw(st.lists(VALUE, min_size=width, max_size=width)) for _ in range(height)]
    order = data.draw(st.lists(st.integers(0, height - 1), max_size=20))
    places = sorted(data.draw(st.sets(st.integers(0, width - 1), min_size=1)))
    units = [data.draw(st.sampled_from([0, 1])) for _ in places]
    found = read(loaded(), rows, order, *zip(places, units, strict=True))
    for index, row in zip(order, found, strict=True):
        for place, unit, micros in zip(places, units, row[width:], strict=True):
            expected = one(loaded(), rows[index][place], unit)
            assert (None if micros == "\\N" else int(micros)) == expected
            assert row[place] == (rows[index][place] if expected is None else "\\N")
        others = [at for at in range(width) if at not in places]
        assert [row[at] for at in others] == [rows[index][at] for at in others]


def test_a_part_of_an_array(instants: Instants) -> None:
    """Its lines begin within the array's bytes."""
    lines = pa.array([f"{n}\t2025-01-01T00:00:0{n}Z\n" for n in range(6)], pa.string())
    found = instants.lines(lines.slice(2, 3), np.array([2, 0]), [Instant(1, "", 0)])
    assert found is not None
    assert found.to_pylist() == ["4\t\\N\t1735689604000000\n", "2\t\\N\t1735689602000000\n"]


def test_without_the_compiler() -> None:
    """What is compiled needs nothing of it but what is never called: LLVM alone loads it."""
    loaded()
    code = """
        import sys
        import numpy as np, pyarrow as pa
        from app.stage.instants import loaded
        from app.stage.request import Instant
        lines = pa.array(["2025-01-01T00:00:00.5Z\\t7\\n", "1969-12-31T00:00:00Z\\t-7\\n"])
        found = loaded().lines(lines, np.array([1, 0]), [Instant(0, "", 0), Instant(1, "", 1000)])
        print(found.to_pylist(), "numba" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True, cwd=ROOT)
    expected = ["\\N\t\\N\t-0000086400000000\t-0000000000007000\n", "\\N\t\\N\t1735689600500000\t0000000000007000\n"]
    assert run.stdout == f"{expected} False\n"
