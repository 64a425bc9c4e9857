"""What a receipt says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.stage.receipt import counted


@given(st.lists(st.integers(-5, 5)))
def test_source_times_are_counted(times: list[int]) -> None:
    """In the order of the log they mostly rise."""
    for some in (times, sorted(times)):
        distinct, counts = counted(np.array(some, np.int64))
        assert distinct.tolist() == sorted(set(some))
        assert np.repeat(distinct, counts).tolist() == sorted(some)
