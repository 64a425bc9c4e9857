"""Times in lines of any bytes: compiled code reads and writes between pages that nothing may touch."""

import ctypes
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from app.stage.instants import Instants
from app.stage.request import Instant
from tests.fuzz.guarded import Region

#: of the arrays that the code gets, those that it only reads come first
READ_ONLY = 5
PIECE = st.sampled_from([b"\t", b"\\N", b"\\", b"-", b"2025-01-01T00:00:00.5Z", b"1735689691549495", b"\xff\xfe", b""])
LINE = st.lists(st.one_of(PIECE, st.binary(max_size=70)), max_size=6).map(lambda parts: b"".join(parts) + b"\n")


class GuardedInstants(Instants):
    """The arrays end directly before such a page, then begin directly behind one."""

    def _run(self, arrays: Sequence[np.ndarray], room: int) -> None:
        results = [self._guarded(arrays, room, at_end=at_end) for at_end in (True, False)]
        assert results[0] == results[1], "the same, wherever the arrays lie"

    def _guarded(self, arrays: Sequence[np.ndarray], room: int, *, at_end: bool) -> tuple[bytes, bytes]:
        regions = [Region(max(array.nbytes, 1)) for array in arrays]
        places = [region.place(array.nbytes, at_end=at_end) for region, array in zip(regions, arrays, strict=True)]
        for array, place in zip(arrays[:READ_ONLY], places, strict=False):
            ctypes.memmove(place, array.ctypes.data, array.nbytes)
        data, ends, order, at, *others = places
        self._call(len(arrays[2]), data, ends, len(arrays[0]), order, len(arrays[3]), at, *others, room)
        for array, place in list(zip(arrays, places, strict=True))[READ_ONLY:]:
            ctypes.memmove(array.ctypes.data, place, array.nbytes)
        out, out_ends = arrays[-2:]
        return out[: out_ends[-1]].tobytes(), out_ends.tobytes()


@settings(max_examples=300)
@given(lines=st.lists(LINE, min_size=1, max_size=8), data=st.data())
def test_no_line_leads_it_astray(lines: list[bytes], data: st.DataObject) -> None:
    """Each line ends in its newline, and has what it had."""
    order = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=10))
    places = sorted(data.draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)))
    wanted = [Instant(place, "", data.draw(st.sampled_from([0, 1, 1000]))) for place in places]
    array = pa.array(lines, pa.binary()).view(pa.string())
    found = GuardedInstants().lines(array, np.array(order, np.int64), wanted)
    assert found is not None
    texts = found.view(pa.binary()).to_pylist()
    assert len(texts) == len(order)
    for index, text in zip(order, texts, strict=True):
        *_, micros = text.removesuffix(b"\n").rsplit(b"\t", len(wanted))
        assert text.endswith(b"\n")
        if all(one == b"\\N" for one in text.removesuffix(b"\n").split(b"\t")[-len(wanted) :]):
            assert text == lines[index].removesuffix(b"\n") + b"\t\\N" * len(wanted) + b"\n"
        assert micros == b"\\N" or micros.lstrip(b"-").isdigit()
