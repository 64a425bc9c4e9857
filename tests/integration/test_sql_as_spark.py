"""Every function and operator that `sql` knows gives what Spark gives, row by row: a text, NULL, or a failure."""

import pytest
from pyspark.sql import SparkSession

from tests.fix_sql import FAILS, Values, by_spark, by_the_lane

WORDS = (
    None,
    "",
    " ",
    "a",
    "Ab c",
    "  b ",
    "xbx",
    "straße",
    "İıǅ",
    "ΑΣ",
    "日本語",
    "\U0001f600x",
    "e\u0301",
    "x\ty\n",
    "%_\\",
    "a,b,,c",
)
NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "+5",
        " 7 ",
        "\x007",
        "007",
        "1.5",
        "-2.5",
        "1e3",
        "1E-3",
        ".5",
        "5.",
        "-0",
        "0.0",
        "-0.0",
        "+",
        "-",
        ".",
    ),
    *(
        "NaN",
        "Infinity",
        "-inf",
        "1d",
        "0x10",
        "0x1p3",
        "127",
        "128",
        "-129",
        "32768",
        "2147483647",
        "2147483648",
        "-2147483648",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" * 40, "0.005", "1.005", "2.675", "0.1"),
    *(
        "123456789.123456789",
        "1234567.5",
        "1e7",
        "0.001",
        "0.00099",
        "1e20",
        "1e-7",
        "1e308",
        "1e309",
        "-1e309",
        "1e-400",
    ),
    *("99999999999999999999.99", "9.995", "1_000", "\u0661\u0662", "1e999999999", "4.9E-324", "3", "2", "10", "256"),
)
OTHERS = (
    *(
        "true",
        "T",
        "no",
        "yes ",
        "N",
        "2020-02-29",
        "2021-02-29",
        "1900-02-29",
        "2000-02-29",
        "1970-01-01",
        "0001-01-01",
    ),
    *(
        "2020",
        "2020-1",
        "2020-1-5 10:00",
        "2020-01-05T",
        "2020-01-05x",
        "2020-1 x",
        "9999-12-31",
        "10000-01-01",
        "-0001-01-01",
    ),
    *("1234567-01-01", "0000-01-01", "1582-10-10", "+2020-01-01", "20-01-01", "1999-12-31", "1899-03-01"),
)
SAMPLES = (*WORDS, *NUMBERS, *OTHERS)
_TYPES = (
    "int",
    "bigint",
    "smallint",
    "tinyint",
    "double",
    "boolean",
    "date",
    "decimal(10, 2)",
    "decimal(38, 0)",
    "decimal(38, 18)",
)
_INT, _BIG, _DOUBLE, _DECIMAL = (f"try_cast(a as {kind})" for kind in ("int", "bigint", "double", "decimal(20, 4)"))
_INT_B, _BIG_B, _DOUBLE_B, _DECIMAL_B = (
    f"try_cast(b as {kind})" for kind in ("int", "bigint", "double", "decimal(18, 3)")
)
_DATE, _DATE_B = "try_cast(a as date)", "try_cast(b as date)"
_BOTH_WAYS = ("int", "bigint", "double", "boolean", "decimal(12, 3)", "string", "date")
CASTS = [
    *(f"cast(a as {kind})" for kind in _TYPES),
    *(f"try_cast(a as {kind})" for kind in _TYPES),
    *(
        f"cast(try_cast(a as {one}) as {other})"
        for one in _BOTH_WAYS
        for other in (*_BOTH_WAYS, "smallint", "decimal(4, 1)")
        if (one != "string" and (one == "date") == (other == "date")) or other == "string"
    ),
]
COMPARISONS = [
    *(f"a {sign} b" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    *(f"{_DOUBLE} {sign} {_DOUBLE_B}" for sign in ("=", "<", ">=", "<=>")),
    *(f"{_DECIMAL} {sign} {_DECIMAL_B}" for sign in ("=", "<")),
    *("a > 5", "a = 1.5", "a = true", f"{_DATE} < {_DATE_B}", f"{_DATE} >= '2000-01-01'", f"{_INT} = {_DOUBLE_B}"),
    *(
        "a between 'a' and 'b'",
        f"{_INT} between 1 and 3",
        "a is null",
        "a is not null",
        "a is distinct from b",
        "not a = 'a'",
    ),
    *(
        "a in ('a', '1', null)",
        "a not in ('a', b)",
        f"{_INT} in (1, 5, 7)",
        "a = 'a' and b = 'b'",
        "a = 'a' or b > 'b'",
    ),
    *(
        "a <> '' and cast(a as int) > 1",
        "a = '' or cast(a as int) > 1",
        "a < b = (b > a)",
        f"{_DOUBLE} in (0, 1, double('NaN'))",
    ),
]
CHOICES = [
    *("case when a = 'a' then b when a > 'x' then 'X' else a end", "case a when '1' then b end", "if(a > b, a, b)"),
    *("coalesce(a, b, 'none')", "nvl(a, b)", "ifnull(a, 'x')", "nvl2(a, b, 'x')", "nullif(a, b)", "nullif(a, '')"),
    *("coalesce(a, cast(b as int))", "case when a is null then 1 else cast(a as int) end", "nullif(cast(a as int), 0)"),
]
TEXTS = [
    *("a || b", "concat(a, '-', b)", "concat(a, 1, 1.50, true)", "concat_ws(',', a, b, 'x')", "concat_ws(a, 'x', b)"),
    *("lower(a)", "upper(a)", "lcase(a)", "ucase(a)", "length(a)", "char_length(a)", "reverse(a)"),
    *(
        "trim(a)",
        "ltrim(a)",
        "rtrim(a)",
        "btrim(a)",
        "trim(both 'xb' from a)",
        "trim(leading 'x' from a)",
        "btrim(a, b)",
    ),
    *(f"left(a, {at})" for at in (0, 2, -1, 99)),
    *(f"right(a, {at})" for at in (0, 2, -1, 99)),
    *(f"substring(a, {at}, {length})" for at in (-3, 0, 1, 2, 99) for length in (-1, 0, 2, 2147483647)),
    *(
        "substr(a, 2)",
        "substring(a from 2 for 1)",
        f"substring('abcdef', {_INT}, {_INT_B})",
        "left('abc', cast(a as int))",
    ),
    *(
        "replace(a, 'b', 'xy')",
        "replace(a, '', 'x')",
        "replace(a, b)",
        "replace(a, b, 'z')",
        "translate(a, 'abx', '12')",
    ),
    *(
        "translate(a, b, 'xy')",
        "lpad(a, 5, 'xy')",
        "rpad(a, 5, 'xy')",
        "lpad(a, 2, '')",
        "rpad(a, 4)",
        "lpad(a, -1, 'x')",
    ),
    *(
        "lpad(a, 7, b)",
        "split_part(a, ',', 1)",
        "split_part(a, ',', -1)",
        "split_part(a, b, 2)",
        "split_part(a, ',', 9)",
    ),
    *("split_part(a, ',', 0)", f"split_part('1.2.3', '.', {_INT})", "instr(a, b)", "instr(a, 'b')", "contains(a, b)"),
    *(
        "startswith(a, b)",
        "endswith(a, b)",
        "startswith(a, 'x')",
        "md5(a)",
        "sha2(a, 256)",
        "sha2(a, 0)",
        "sha2(a, 512)",
    ),
    *("sha2(a, 224)", "sha2(a, 384)", "sha2(a, 1)"),
]
PATTERNS = [
    *(
        f"a like '{one}'"
        for one in ("a%", "%b%", "_", "__", "%c", "", "%", "a,b%c", "%\\\\_%", "\\\\%\\\\_\\\\\\\\", "x_y_", "Ab c")
    ),
    *("a ilike 'AB%'", "a ilike '%SS%'", "a not like 'x%'", "a like '!%%' escape '!'"),
    *(
        f"a rlike '{one}'"
        for one in (
            "^a",
            "c$",
            "y$",
            ".",
            "^.$",
            "[a-c]+",
            "[^0-9]",
            "^[0-9]{2,3}$",
            "\\\\d+",
            "^\\\\w+$",
            "\\\\s",
            "\\\\.",
        )
    ),
    *(
        "regexp_replace(a, '[^0-9]', '')",
        "regexp_replace(a, 'x+', '-')",
        "regexp_replace(a, '(b|c)+?', 'z')",
        "a regexp '(?:a|b),'",
    ),
]
ARITHMETIC = [
    *(
        f"{one} {sign} {other}"
        for sign in ("+", "-", "*", "/", "%")
        for one, other in (
            (_INT, _INT_B),
            (_BIG, _BIG_B),
            (_DOUBLE, _DOUBLE_B),
            (_DECIMAL, _DECIMAL_B),
            (_INT, "0.3"),
            (_DOUBLE, "0"),
        )
    ),
    *(f"{one} div {other}" for one, other in ((_INT, _INT_B), (_BIG, _BIG_B), (_DECIMAL, _DECIMAL_B))),
    *(f"{name}({_INT}, {_INT_B})" for name in ("try_add", "try_subtract", "try_multiply", "try_divide", "mod")),
    *(f"{name}({_DECIMAL}, {_DECIMAL_B})" for name in ("try_add", "try_multiply", "try_divide")),
    *(f"{name}({one})" for name in ("abs", "-", "floor", "ceil", "round") for one in (_INT, _BIG, _DOUBLE, _DECIMAL)),
    *(f"round({one}, {places})" for one in (_DOUBLE, _DECIMAL, "cast(a as double)") for places in (0, 1, 2, 5)),
    *("a + 1", "a * 2", "a / 2", "a % 3", "-a", "1 / cast(a as int)", "null / 0", "abs(a)", "ceiling(a)"),
    "10 / coalesce(try_cast(a as int), 0)",
]
DATES = [
    *(
        f"date_add({_DATE}, {_INT_B})",
        f"date_sub({_DATE}, 31)",
        f"{_DATE} + 1",
        f"{_DATE} - 400",
        f"datediff({_DATE}, {_DATE_B})",
    ),
    *(f"{name}({_DATE})" for name in ("year", "month", "day", "dayofmonth", "unix_date")),
    *(
        "to_date(a)",
        "year(a)",
        f"date_from_unix_date({_INT})",
        "date '2020-01-31'",
        "cast(cast(a as date) as timestamp)",
    ),
    *(f"{name}({_BIG})" for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros")),
    *(f"unix_{unit}(timestamp_micros({_BIG}))" for unit in ("seconds", "millis", "micros")),
    *(f"cast(timestamp_micros({_BIG}) as date)", f"timestamp_millis({_BIG}) < timestamp_seconds({_BIG_B})"),
]
EXPRESSIONS = [*CASTS, *COMPARISONS, *CHOICES, *TEXTS, *PATTERNS, *ARITHMETIC, *DATES]


def _rows(text: str) -> list[Values]:
    """Each sample in `a`; beside it one that is never the same one for two neighbours."""
    return [(one, SAMPLES[(at * 37 + len(text)) % len(SAMPLES)]) for at, one in enumerate(SAMPLES)]


def same(one: str | None, other: str | None) -> bool:
    """Java 17 writes some doubles with a digit more than it takes to read the same one back."""
    if one == other:
        return True
    if one is None or other is None or FAILS in (one, other) or ("E" not in one + other and "." not in one + other):
        return False
    return len(other) != len(one) and float(one) == float(other)


def compare(spark: SparkSession, expression: str, rows: list[Values]) -> None:
    """Every row."""
    spark_s, lane_s = by_spark(spark, expression), by_the_lane(spark, expression)
    found = [(row, spark_s(row), lane_s(row)) for row in rows]
    assert [one for one in found if not same(one[1], one[2])] == []


@pytest.mark.costly(60)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_gives_what_spark_gives(spark: SparkSession, expression: str) -> None:
    compare(spark, expression, _rows(expression))
