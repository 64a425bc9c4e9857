"""Errors of the SQL for a row: with Spark's name of the error, without the value."""


class SqlFailure(ArithmeticError):
    """The SQL fails for this row."""


def cannot_cast(to: str) -> SqlFailure:
    return SqlFailure(f"CAST_INVALID_INPUT: a text is no {to}; try_cast gives NULL instead")


def overflow(what: str) -> SqlFailure:
    return SqlFailure(f"NUMERIC_VALUE_OUT_OF_RANGE: a number is too large for {what}")


def by_zero() -> SqlFailure:
    return SqlFailure("DIVIDE_BY_ZERO: division by zero; nullif(x, 0) gives NULL instead")
