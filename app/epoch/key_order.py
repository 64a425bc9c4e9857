"""The order in which rows are written: that of their keys in the target's index, as far as their texts have it."""

import re

import numpy as np
import pyarrow as pa

from app.model.arrow import Indices, compute

#: of a key with one number: the number, and what closes its objects
_LAST_NUMBER = re.compile(r"(-?\d{1,18})(\}+)$", re.ASCII)
#: the smallest numbers of two digits, of three, and so on
_POWERS = 10 ** np.arange(1, 19)


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
    found = None if keys.null_count or not len(keys) else _LAST_NUMBER.search(keys[0].as_py())
    if found is None:
        return None
    before, behind = found.string[: found.start()].encode(), found[2].encode()
    texts = compute.cast(keys, pa.binary())
    are_alike = compute.and_(compute.starts_with(texts, before), compute.ends_with(texts, behind))
    if not compute.all(are_alike).as_py():
        return None
    digits = compute.binary_slice(texts, len(before), -len(behind))
    try:
        numbers = compute.cast(compute.cast(digits, pa.string()), pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some are no numbers, or `before` has the first digits of a longer one
        return None
    lengths = compute.binary_length(digits).to_numpy(zero_copy_only=False)
    shortest = np.searchsorted(_POWERS, np.abs(numbers), side="right") + 1 + (numbers < 0)
    return numbers if np.array_equal(lengths, shortest) else None  # -0 and 007 are other texts than 0 and 7
