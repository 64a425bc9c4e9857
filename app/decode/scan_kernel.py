"""Debezium JSON as bytes, to COPY lines as bytes: the functions that `app.decode.scan_loader` compiles by numba.

One pass over a message, without an object made for anything in it. It takes the most common messages: an upsert with
the whole row, or a delete with a key; values that are texts, numbers, true, false or null, no name twice, no `\\u` in
what is needed. Every other message is left, also one that is not JSON: a message is either taken as
`app.decode.debezium` takes it in Python, or not at all. The caller checks UTF-8 where there is more than ASCII.

Eight bytes are tested together: that finds the end of a run of characters without a branch for each of them, which a
processor predicts badly. So `MORE` bytes of anything have to lie behind what is read and written.

Places are indices into `data`; "behind" something is the place after its last byte; -1: the message is left.
"""

from typing import Any

import numba
import numpy as np
from numba import types

from app.machine_words import HIGH, ONE, WIDTH, Bytes, Integers, Word, eight, first_marked, head, load, part, store
from app.model.row_layout import SEPARATOR

#: bytes behind the data that are read and written with it
MORE = 16

#: between the names of a layout
_SEPARATOR = ord(SEPARATOR)
_QUOTE, _BACKSLASH, _COMMA, _COLON = ord('"'), ord("\\"), ord(","), ord(":")
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
_ZERO, _NINE, _MINUS, _PLUS, _POINT = ord("0"), ord("9"), ord("-"), ord("+"), ord(".")
_TAB, _NEWLINE, _RETURN, _BLANK = ord("\t"), ord("\n"), ord("\r"), ord(" ")
_SMALL_E, _LARGE_E, _SMALL_T, _SMALL_F, _SMALL_N, _LARGE_N = ord("e"), ord("E"), ord("t"), ord("f"), ord("n"), ord("N")
_SMALL_B, _SMALL_R, _SMALL_U, _SLASH = ord("b"), ord("r"), ord("u"), ord("/")
_SMALL_A, _SMALL_D, _LARGE_A, _LARGE_F = ord("a"), ord("d"), ord("A"), ord("F")
_EIGHT = ord("8")
#: the bit that lower-case letters have, and upper-case ones not
_SMALLER = 0x20
_BACKSPACE, _FORM_FEED = 0x08, 0x0C
#: `op` of the changes that write a row, and of those that delete it
_CREATED, _UPDATED, _READ, _DELETED = ord("c"), ord("u"), ord("r"), ord("d")
#: bits of the names that were seen in a message; with one of them twice it is left
_AFTER_SEEN, _SOURCE_SEEN, _OP_SEEN = 1, 2, 4
#: the first byte that is no control character, the first that is not ASCII
_PRINTABLE, _WIDE = 0x20, 0x80
#: maximum length of an integer
_DIGITS = 18
#: maximum depth of objects and lists
_DEPTH = 60

#: places in the array of a message's origin, behind those of schema and table
_SEQUENCE_AT, _TIME = 4, 5
#: length of that array
ORIGIN = 6


def _word(text: str) -> Word:
    """At most eight characters as they lie in memory."""
    return np.uint64(int.from_bytes(text.encode(), "little"))


_TRUE, _FALSE, _NULL = _word("true"), _word("false"), _word("null")
_OP, _SOURCE, _AFTER = _word("op"), _word("source"), _word("after")
_SCHEMA, _TABLE, _SEQUENCE, _TS_MS = _word("schema"), _word("table"), _word("sequence"), _word("ts_ms")
_ONES = eight(1)
_QUOTES, _BACKSLASHES, _BLANKS = eight(_QUOTE), eight(_BACKSLASH), eight(_PRINTABLE)
#: for the hash: an odd number without a pattern, and the shift from a product's upper half to the lower
_MIXING, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
#: subtracted, it takes a byte below "0" below zero; added, it takes one above "9" to 128 or more
_ZEROS, _ABOVE_NINE = eight(_ZERO), eight(_WIDE - 1 - _NINE)


@part
def _stops(word: Word) -> Word:
    """Mark the first byte that ends a run of plain characters (a quote, a backslash, a control character); bytes behind
    it may be marked, too."""
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    zeros = ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
    return (zeros | ((word - _BLANKS) & ~word)) & HIGH


@part
def _behind(data: Bytes, at: int, end: int, marked: Any) -> int:
    """Place of the first byte that `marked` marks, else `end`."""
    while at < end:
        marks = marked(load(data, at))
        if marks:
            return min(at + first_marked(marks), end)
        at += WIDTH
    return end


@part
def _run(data: Bytes, at: int, end: int) -> int:
    """Behind a run of plain characters."""
    return _behind(data, at, end, _stops)


@part
def _space(data: Bytes, at: int, end: int) -> int:
    """Behind white space."""
    while at < end and data[at] <= _BLANK and data[at] in (_BLANK, _NEWLINE, _TAB, _RETURN):
        at += 1
    return at


@part
def _packed(data: Bytes, begin: int, end: int) -> Word:
    """A word as `_word` makes it; for more than eight bytes one that is no name."""
    count = end - begin
    word = load(data, begin)
    if count < WIDTH:
        return head(word, count)
    return word if count == WIDTH else ONE


@part
def _literal(data: Bytes, at: int, end: int, word: Word, length: int) -> int:
    """Behind this word; -1 where it is not there."""
    behind = at + length
    return behind if behind <= end and _packed(data, at, behind) == word else -1


@part
def _is_hexadecimal(byte: int) -> bool:
    return _ZERO <= byte <= _NINE or _SMALL_A <= byte <= _SMALL_F or _LARGE_A <= byte <= _LARGE_F


@part
def _escape(data: Bytes, at: int, end: int) -> int:
    """Behind an escape that begins at `at`. Half of a surrogate pair alone is a fault of its message, and Python finds
    those: a message with any half is left."""
    if at + 1 >= end:
        return -1
    which = data[at + 1]
    if which == _SMALL_U:
        if at + 6 > end:
            return -1
        for index in range(at + 2, at + 6):
            if not _is_hexadecimal(data[index]):
                return -1
        is_half = data[at + 2] | _SMALLER == _SMALL_D and data[at + 3] >= _EIGHT
        return -1 if is_half else at + 6
    simple = which in (_QUOTE, _BACKSLASH, _SLASH, _SMALL_B, _SMALL_F)
    return at + 2 if simple or which in (_SMALL_N, _SMALL_R, _SMALL_T) else -1


@part
def _text(data: Bytes, at: int, end: int) -> int:
    """Behind the text whose opening quote is at `at`."""
    at += 1
    while at < end:
        at = _run(data, at, end)
        if at >= end:
            break
        if data[at] == _QUOTE:
            return at + 1
        if data[at] != _BACKSLASH:
            break
        at = _escape(data, at, end)
        if at < 0:
            break
    return -1


@part
def _no_digits(word: Word) -> Word:
    """Mark the first byte that is no digit; bytes behind it may be marked, too."""
    return ((word - _ZEROS) | (word + _ABOVE_NINE) | word) & HIGH


@part
def _digits(data: Bytes, at: int, end: int) -> int:
    return _behind(data, at, end, _no_digits)


@part
def _integer(data: Bytes, at: int, end: int) -> int:
    """Behind the digits before a number's point."""
    if at < end and data[at] == _MINUS:
        at += 1
    if at >= end or not _ZERO <= data[at] <= _NINE:
        return -1
    return at + 1 if data[at] == _ZERO else _digits(data, at, end)


@part
def _number(data: Bytes, at: int, end: int) -> int:
    """Behind a number."""
    at = _integer(data, at, end)
    if at >= 0 and at < end and data[at] == _POINT:
        behind = _digits(data, at + 1, end)
        at = behind if behind > at + 1 else -1
    if at >= 0 and at < end and (data[at] == _SMALL_E or data[at] == _LARGE_E):
        first = at + 1
        if first < end and (data[first] == _PLUS or data[first] == _MINUS):
            first += 1
        behind = _digits(data, first, end)
        at = behind if behind > first else -1
    return at


@part
def _name(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Place of a member name's closing quote, and of its value; the name's opening quote is at `at`. -1 for a name with
    an escape, which might be any."""
    if at >= end or data[at] != _QUOTE:
        return -1, -1
    at = _run(data, at + 1, end)
    if at >= end or data[at] != _QUOTE:
        return -1, -1
    colon = _space(data, at + 1, end)
    if colon >= end or data[colon] != _COLON:
        return -1, -1
    value = _space(data, colon + 1, end)
    return (at, value) if value < end else (-1, -1)


@part
def _scalar(data: Bytes, at: int, end: int) -> int:
    """Behind a value that is neither object nor list."""
    first = data[at]
    if first == _QUOTE:
        return _text(data, at, end)
    if first == _SMALL_T:
        return _literal(data, at, end, _TRUE, 4)
    if first == _SMALL_F:
        return _literal(data, at, end, _FALSE, 5)
    return _literal(data, at, end, _NULL, 4) if first == _SMALL_N else _number(data, at, end)


@part
def _skip(data: Bytes, at: int, end: int) -> int:
    """Behind a value of any kind; all of it has to be JSON."""
    depth, are_objects = 0, 0  # a bit for each level, the innermost the lowest
    while True:
        if at >= end:
            return -1
        if data[at] == _OPEN or data[at] == _OPEN_LIST:
            is_object = data[at] == _OPEN
            inside = _space(data, at + 1, end)
            if inside < end and data[inside] == (_CLOSE if is_object else _CLOSE_LIST):
                at = inside + 1
            else:
                depth, are_objects, at = depth + 1, are_objects << 1 | is_object, inside
                if depth > _DEPTH:
                    return -1
                if is_object:
                    at = _name(data, at, end)[1]
                    if at < 0:
                        return -1
                continue
        else:
            at = _scalar(data, at, end)
            if at < 0:
                return -1
        while depth:
            at = _space(data, at, end)
            if at >= end:
                return -1
            is_object = are_objects & 1
            if data[at] == _COMMA:
                at = _space(data, at + 1, end)
                if is_object:
                    at = _name(data, at, end)[1]
                    if at < 0:
                        return -1
                break
            if data[at] != (_CLOSE if is_object else _CLOSE_LIST):
                return -1
            at, depth, are_objects = at + 1, depth - 1, are_objects >> 1
        if not depth:
            return at


@part
def _put(out: Bytes, to: int, byte: int) -> int:
    """Write a character of a COPY line; the place behind it."""
    escaped = 0
    if byte == _BACKSLASH:
        escaped = _BACKSLASH
    elif byte == _TAB:
        escaped = _SMALL_T
    elif byte == _NEWLINE:
        escaped = _SMALL_N
    elif byte == _RETURN:
        escaped = _SMALL_R
    if escaped:
        out[to] = _BACKSLASH
        out[to + 1] = escaped
        return to + 2
    out[to] = byte
    return to + 1


@part
def _meant(which: int) -> int:
    """The character that an escape stands for; 0 for escapes that are left to Python."""
    if which in (_QUOTE, _BACKSLASH, _SLASH):
        return which
    if which == _SMALL_N:
        return _NEWLINE
    if which == _SMALL_T:
        return _TAB
    if which == _SMALL_R:
        return _RETURN
    if which == _SMALL_B:
        return _BACKSPACE
    return _FORM_FEED if which == _SMALL_F else 0


@part
def _copy_text(data: Bytes, at: int, end: int, out: Bytes, to: int, is_line: bool) -> tuple[int, int, bool]:
    """Write the content of the text whose opening quote is at `at`; the places behind it in `data` and `out`, and
    whether all is ASCII."""
    at, together = at + 1, np.uint64(0)
    while at < end:
        word = load(data, at)
        marks = _stops(word)
        store(out, to, word)
        if not marks:
            together |= word
            at, to = at + WIDTH, to + WIDTH
            continue
        plain = first_marked(marks)
        together |= head(word, plain)
        at, to = at + plain, to + plain
        if at >= end:
            break
        byte = data[at]
        if byte == _QUOTE:
            return at + 1, to, together & HIGH == 0
        meant = _meant(data[at + 1]) if byte == _BACKSLASH and at + 1 < end else 0
        if not meant:
            break
        if is_line:
            to = _put(out, to, meant)
        else:
            out[to] = meant
            to += 1
        at += 2
    return -1, to, False


@part
def _copy_value(data: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, bool]:
    """Write a value of a row as a COPY line has it; returns as `_copy_text`."""
    if at >= end:
        return -1, to, True
    first = data[at]
    if first == _QUOTE:
        return _copy_text(data, at, end, out, to, True)
    behind = _scalar(data, at, end)
    if first == _SMALL_N and behind >= 0:
        out[to] = _BACKSLASH
        out[to + 1] = _LARGE_N
        return behind, to + 2, True
    if first == _MINUS or _ZERO <= first <= _NINE:
        digits = _integer(data, at, end)
        is_integer = digits == behind
        # Python writes the number that it has read: 0 for -0
        if is_integer and (behind - at > _DIGITS or (first == _MINUS and data[at + 1] == _ZERO)):
            return -1, to, True
    for index in range(at, behind, WIDTH):
        store(out, to + index - at, load(data, index))
    return behind, to + max(behind - at, 0), True


@part
def _copy(data: Bytes, begin: int, end: int, out: Bytes, to: int) -> tuple[int, bool]:
    """Write a separator and the bytes as they are; the place behind them, and whether all is ASCII (it may be false
    even so)."""
    out[to] = _SEPARATOR
    to, together = to + 1, np.uint64(0)
    for index in range(begin, end, WIDTH):
        word = load(data, index)
        together |= word
        store(out, to + index - begin, word)
    return to + end - begin, together & HIGH == 0


@part
def _row(
    data: Bytes, at: int, end: int, line: Bytes, line_to: int, names: Bytes, names_to: int
) -> tuple[int, int, int, bool]:
    """Write the row whose brace is at `at` as a COPY line, and the names of its columns, each behind a separator; the
    place behind it in each of the three arrays, and whether all is ASCII."""
    is_ascii = True
    at = _space(data, at + 1, end)
    while True:
        name_end, value = _name(data, at, end)
        if name_end < 0:
            break
        names_to, of_name = _copy(data, at + 1, name_end, names, names_to)
        at, line_to, of_value = _copy_value(data, value, end, line, line_to)
        is_ascii = is_ascii and of_name and of_value
        if at < 0:
            break
        at = _space(data, at, end)
        if at < end and data[at] == _CLOSE:
            line[line_to] = _NEWLINE
            return at + 1, line_to + 1, names_to, is_ascii
        if at >= end or data[at] != _COMMA:
            break
        line[line_to] = _TAB
        line_to, at = line_to + 1, _space(data, at + 1, end)
    return -1, line_to, names_to, is_ascii


@part
def _time(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Behind an integer, and its value."""
    behind = _number(data, at, end)
    if behind < 0 or behind - at > _DIGITS or _integer(data, at, end) != behind:
        return -1, 0
    first = at + 1 if data[at] == _MINUS else at
    number = 0
    for index in range(first, behind):
        number = number * 10 + (data[index] - _ZERO)
    return behind, number if first == at else -number


@part
def _plain(data: Bytes, at: int, end: int) -> int:
    """Behind a text without escapes, or null."""
    if data[at] != _QUOTE:
        return _literal(data, at, end, _NULL, 4)
    behind = _run(data, at + 1, end)
    return behind + 1 if behind < end and data[behind] == _QUOTE else -1


@part
def _origin(data: Bytes, at: int, end: int, found: Integers) -> int:
    """Read a message's origin, whose brace is at `at`; the place behind it. Writes to `found`: begin and end of schema
    and of table, 0 where there is none; where the sequence begins, and the time, 0 where there is none."""
    for index in range(ORIGIN):
        found[index] = 0
    seen = 0
    at = _space(data, at + 1, end)
    while True:
        name_end, value = _name(data, at, end)
        if name_end < 0:
            return -1
        begin, which = at + 1, 0
        name = _packed(data, begin, name_end)
        if name in (_SCHEMA, _TABLE):
            which = 1 if name == _SCHEMA else 2
            at = _plain(data, value, end)
            if at >= 0 and data[value] == _QUOTE:
                found[2 * which - 2] = value + 1
                found[2 * which - 1] = at - 1
        elif name == _SEQUENCE:
            which = 4
            at = _scalar(data, value, end)
            if data[value] == _QUOTE:
                found[_SEQUENCE_AT] = value
            elif data[value] != _SMALL_N:
                return -1
        elif name == _TS_MS:
            which = 8
            at, found[_TIME] = _time(data, value, end)
        else:
            at = _skip(data, value, end)
        if at < 0 or seen & which:
            return -1
        seen |= which
        at = _space(data, at, end)
        if at < end and data[at] == _CLOSE:
            return at + 1
        if at >= end or data[at] != _COMMA:
            return -1
        at = _space(data, at + 1, end)


@part
def _is(texts: Bytes, text_ends: Integers, which: int, begin: int, end: int) -> bool:
    """Whether layout `which` equals the bytes from `begin` to `end`."""
    first = text_ends[which - 1] if which else 0
    length = end - begin
    if text_ends[which] - first != length:
        return False
    index = 0
    while index + WIDTH <= length:
        if load(texts, first + index) != load(texts, begin + index):
            return False
        index += WIDTH
    return head(load(texts, first + index), length - index) == head(load(texts, begin + index), length - index)


@part
def _hash(texts: Bytes, begin: int, end: int) -> Word:
    mixed = np.uint64(end - begin)
    for index in range(begin, end, WIDTH):
        word = load(texts, index)
        mixed = (mixed ^ (word if index + WIDTH <= end else head(word, end - index))) * _MIXING
        mixed ^= mixed >> _HALF
    return mixed


@part
def _numbered(texts: Bytes, text_ends: Integers, count: int, begin: int, end: int, slots: Integers, mask: int) -> int:
    """Number of the layout from `begin` to `end`: `count` for a new one, which gets a slot."""
    slot = types.int64(_hash(texts, begin, end) & np.uint64(mask))
    while slots[slot]:
        which = slots[slot] - 1
        if _is(texts, text_ends, which, begin, end):
            return which
        slot = (slot + 1) & mask
    slots[slot] = count + 1
    return count


def scan(
    messages: int,
    data: Bytes,
    begins: Integers,
    ends: Integers,
    keys: Bytes,
    key_begins: Integers,
    key_ends: Integers,
    lines: Bytes,
    line_ends: Integers,
    sequences: Bytes,
    sequence_ends: Integers,
    has_sequence: Bytes,
    times: Integers,
    are_read: Bytes,
    layouts: Integers,
    texts: Bytes,
    text_ends: Integers,
    origin: Integers,
    slots: Integers,
    mask: int,
) -> int:
    """Take the messages from `begins` to `ends` of `data`, with keys from `key_begins` to `key_ends` of `keys`.

    Returns the number of layouts, negative where not all is ASCII.

    Writes for each message: to `layouts` the number of its layout, -1 where it is left; to `times` milliseconds since
    1970; to `line_ends` and `sequence_ends`, which begin with a 0, where line and sequence end; to `has_sequence` and
    `are_read` 0 or 1. A layout is the text in `texts` up to its place in `text_ends`: columns, source schema, table and
    `op`, "u" for any upsert, each behind a separator. `lines`, `sequences` and `texts` have to be as long as `data` and
    `keys` together, which have `MORE` bytes at their ends; `origin` is for `_origin`; `slots` are zeros, a power of two
    that is more than `messages`, and `mask` is one less than that.
    """
    count, last, is_ascii = 0, -1, True
    line_to, sequence_to, text_to = 0, 0, 0
    line_ends[0] = sequence_ends[0] = 0
    for message in range(messages):
        layouts[message] = -1
        times[message] = 0
        has_sequence[message] = are_read[message] = False
        # of this message, until all of it is read
        line, sequence, text, plain, kind, seen = line_to, sequence_to, text_to, True, 0, 0
        end = ends[message]
        at = _space(data, begins[message], end)
        is_open = at < end and data[at] == _OPEN
        at = _space(data, at + 1, end)
        while is_open:
            name_end, value = _name(data, at, end)
            if name_end < 0:
                break
            begin, which = at + 1, 0
            name = _packed(data, begin, name_end)
            if name == _AFTER:
                which, at = _AFTER_SEEN, -1
                if data[value] == _OPEN and not seen & which:
                    at, line, text, plain = _row(data, value, end, lines, line, texts, text)
                elif data[value] == _SMALL_N:
                    at = _literal(data, value, end, _NULL, 4)
            elif name == _SOURCE:
                which = _SOURCE_SEEN
                at = _origin(data, value, end, origin) if data[value] == _OPEN else -1
            elif name == _OP:
                which, at = _OP_SEEN, -1
                if value + 2 < end and data[value] == _QUOTE and data[value + 2] == _QUOTE:
                    kind, at = data[value + 1], value + 3
            elif name == _SCHEMA:  # it may be an envelope
                at = -1
            else:
                at = _skip(data, value, end)
            if at < 0 or seen & which:
                break
            seen |= which
            at = _space(data, at, end)
            if at < end and data[at] == _COMMA:
                at = _space(data, at + 1, end)
                continue
            is_all = at < end and data[at] == _CLOSE and _space(data, at + 1, end) == end
            is_known = seen & _OP_SEEN and seen & _SOURCE_SEEN and origin[_TIME] != 0
            if not is_all or not is_known:
                break
            if kind == _DELETED:
                begin, key_end = key_begins[message], key_ends[message]
                if line > line_to or begin == key_end or keys[begin] != _OPEN:
                    break
                at, line, text, plain = _row(keys, begin, key_end, lines, line_to, texts, text_to)
                if at < 0 or _space(keys, at, key_end) != key_end:
                    break
            elif kind not in (_CREATED, _UPDATED, _READ) or line == line_to:
                break
            if origin[_SEQUENCE_AT]:
                at, sequence, same = _copy_text(data, origin[_SEQUENCE_AT], end, sequences, sequence, False)
                plain = plain and same
                if at < 0:
                    break
            for at_text in range(0, 4, 2):
                text, same = _copy(data, origin[at_text], origin[at_text + 1], texts, text)
                plain = plain and same
            texts[text], texts[text + 1] = _SEPARATOR, _DELETED if kind == _DELETED else _UPDATED
            text += 2
            which = last  # most likely the same
            if last < 0 or not _is(texts, text_ends, last, text_to, text):
                which = _numbered(texts, text_ends, count, text_to, text, slots, mask)
            if which == count:
                text_to = text_ends[count] = text
                count += 1
            layouts[message] = last = which
            times[message], are_read[message] = origin[_TIME], kind == _READ
            has_sequence[message] = origin[_SEQUENCE_AT] > 0
            line_to, sequence_to = line, sequence
            is_ascii = is_ascii and plain
            break
        line_ends[message + 1] = line_to
        sequence_ends[message + 1] = sequence_to
    return count if is_ascii else -count


def compiled() -> Any:
    """`scan` as a C function: call its `address` with the addresses of arrays. Takes ten seconds."""
    byte, short, long = types.CPointer(types.uint8), types.CPointer(types.int32), types.CPointer(types.int64)
    read = (byte, long, long, byte, long, long)
    written = (byte, short, byte, short, byte, long, byte, long, byte, long)
    signature = types.int64(types.int64, *read, *written, long, long, types.int64)
    return numba.cfunc(signature, error_model="numpy")(scan)
