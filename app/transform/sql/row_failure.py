"""What SQL raises for a row: Spark's name of the error, and no value."""


class SqlFailure(ArithmeticError):
    """The SQL fails for this row."""


def cannot_cast(to: str) -> SqlFailure:
    """A text that is none."""
    return SqlFailure(f"CAST_INVALID_INPUT: a text is no {to}; try_cast gives NULL instead")


def overflow(what: str) -> SqlFailure:
    """A number that does not fit."""
    return SqlFailure(f"NUMERIC_VALUE_OUT_OF_RANGE: a number is too large for {what}")


def by_zero() -> SqlFailure:
    """A division."""
    return SqlFailure("DIVIDE_BY_ZERO: division by zero; nullif(x, 0) gives NULL instead")
