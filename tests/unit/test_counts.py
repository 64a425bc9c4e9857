"""Every message is in exactly one count besides `consumed`."""

from hypothesis import given
from hypothesis import strategies as st

from app.ledger.ledger_tables import COUNTS
from app.model.counts import Counts

#: every count but the sum
PARTS = ("applied", "compacted", "filtered", "duplicate", "quarantined")
parts = st.fixed_dictionaries({name: st.integers(0, 10**9) for name in PARTS})


@given(parts)
def test_counts_add_up_when_consumed_is_the_sum_of_the_rest(given_parts: dict[str, int]) -> None:
    assert Counts(consumed=sum(given_parts.values()), **given_parts).adds_up


@given(parts, st.integers(-5, 5).filter(bool))
def test_one_message_too_many_or_too_few_is_noticed(given_parts: dict[str, int], wrong: int) -> None:
    assert not Counts(consumed=sum(given_parts.values()) + wrong, **given_parts).adds_up


def test_the_counts_are_the_ledgers_columns() -> None:
    assert tuple(Counts().as_dict()) == COUNTS == ("consumed", *PARTS)
