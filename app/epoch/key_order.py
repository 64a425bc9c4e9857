"""The order in which rows are written: that of their keys in the target's index, as far as their texts have it."""

import re

import numpy as np
import pyarrow as pa

from app.model.arrow import Indices, compute

#: of a key with one number: the number, and what closes its objects
_LAST_NUMBER = re.compile(rb"(-?\d{1,18})(\}+)$")


def key_order(keys: pa.Array) -> Indices:
    """Indices of these texts of one table's keys, sorted: by the number where they differ in one alone, else as texts.

    Neighbours in an index are written together then, which is all that depends on it.
    """
    if len(keys) < 2:
        return np.arange(len(keys))
    numbers = key_numbers(keys)
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    return compute.sort_indices(keys).to_numpy(zero_copy_only=False).astype(np.int64)


def key_numbers(keys: pa.Array) -> Indices | None:
    """The number at the end of each text, where all else in them is the same: equal numbers are equal texts. Else
    None."""
    texts = compute.cast(keys, pa.binary())  # one need not be UTF-8
    found = None if keys.null_count or not len(keys) else _LAST_NUMBER.search(texts[0].as_py())
    if found is None:
        return None
    before, behind = found.string[: found.start()], found[2]
    are_alike = compute.and_(compute.starts_with(texts, before), compute.ends_with(texts, behind))
    if not compute.all(are_alike).as_py():
        return None
    digits = compute.binary_slice(texts, len(before), -len(behind))
    is_longer = compute.greater(compute.binary_length(digits), 1)
    has_zero = compute.and_(compute.starts_with(digits, b"0"), is_longer)
    if compute.any(compute.or_(has_zero, compute.starts_with(digits, b"-0"))).as_py():
        return None  # 007, -0 and 0x7 are other texts than 7 and 0
    try:
        return compute.cast(compute.cast(digits, pa.string()), pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some are no numbers, or `before` has the first digits of a longer one
        return None
