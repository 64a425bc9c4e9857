"""The connector's handling modes, with Debezium's names and values: the meaning of a text without a schema.

`hstore.handling.mode` is not among them: a map and its JSON text look the same in a message.
"""

import enum

from pydantic import BaseModel, ConfigDict


class DecimalMode(enum.StrEnum):
    """`decimal.handling.mode`."""

    PRECISE = "precise"  #: base64 of the unscaled integer
    STRING = "string"
    DOUBLE = "double"  #: precise to about 16 digits


class TimePrecision(enum.StrEnum):
    """`time.precision.mode`."""

    ADAPTIVE = "adaptive"  #: milliseconds up to three digits, else microseconds
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"  #: as ADAPTIVE, but `time` always in microseconds
    CONNECT = "connect"  #: milliseconds
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"
    STRUCTURED = "structured"  #: an object with year, month, day, ...


class BinaryMode(enum.StrEnum):
    """`binary.handling.mode`."""

    BYTES = "bytes"  #: base64 in JSON
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class IntervalMode(enum.StrEnum):
    """`interval.handling.mode`."""

    NUMERIC = "numeric"  #: microseconds, a month as 30.4375 days; ISO text is accepted, too
    STRING = "string"


class Modes(BaseModel):
    """The connector's modes. Debezium's defaults except for `decimal`, whose default is ambiguous without a schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    decimal: DecimalMode = DecimalMode.STRING
    time_precision: TimePrecision = TimePrecision.ADAPTIVE
    binary: BinaryMode = BinaryMode.BYTES
    interval: IntervalMode = IntervalMode.NUMERIC


#: modes of a lane that configures none
DEFAULT_MODES = Modes()
