"""In which order an epoch's changes are sent to the target.

The fast plans send only the last change of each key, one DELETE and one INSERT a table. Whether the target's foreign
keys and unique constraints accept that depends on the order of the statements, so they are tried one after the other,
each in a subtransaction; the faithful plan sends every change in its place and is right whenever the source was.

    DELETES_FIRST   frees unique values before they are taken again; children's rows go before their parents'
    UPSERTS_FIRST   moves children to other parents before the old parents go
    FAITHFUL        runs of neighbouring changes that have one table, one kind and no key twice; a key that changes
                    by an UPDATE of its own, as at the source
"""

import enum
from collections.abc import Iterable, Iterator

from app.apply.epoch_batch import CHANGES, EpochBatch
from app.apply.target_tables import TargetTable


class OrderPlan(enum.StrEnum):
    """See above; the name is recorded in the ledger."""

    NONE = "none"  #: the epoch carried no change for the target
    DELETES_FIRST = "deletes-first"
    UPSERTS_FIRST = "upserts-first"
    FAITHFUL = "faithful"
    NARROWED = "narrowed"  #: in parts, because the guard suspected some of it: see `app.lane.applying`


#: tried in this order
ATTEMPTS = (OrderPlan.DELETES_FIRST, OrderPlan.UPSERTS_FIRST, OrderPlan.FAITHFUL)
#: of an epoch that the first attempt was not enough for
FALLBACKS = (OrderPlan.UPSERTS_FIRST, OrderPlan.FAITHFUL, OrderPlan.NARROWED)


def parents_first(tables: Iterable[TargetTable]) -> list[TargetTable]:
    """Tables with those that a foreign key points at before those that hold it; within a cycle by name."""
    left = sorted(tables, key=str)
    result: list[TargetTable] = []
    while left:
        oids = {table.oid for table in left}
        free = [table for table in left if not table.parents & oids] or left[:1]
        result += free
        left = [table for table in left if table not in free]
    return result


def runs(epoch: EpochBatch) -> Iterator[tuple[int, int, int]]:
    """Runs of the faithful plan as (layout index, first ordinal, last ordinal), in order.

    A run never contains two changes of one key, so one statement cannot meet its own work. Both changes of a key that
    becomes another one are runs by themselves.
    """
    alone = {*epoch.key_changes, *epoch.key_changes.values()}
    changes = epoch.of_kind(*CHANGES)
    codes, identities = epoch.codes[changes].tolist(), epoch.identities[changes].tolist()
    seen: set[int] = set()
    start = 0
    ordinals = changes.tolist()
    for index, identity in enumerate(identities):
        begins = identity < 0 or identity in seen or not alone.isdisjoint(ordinals[max(index - 1, 0) : index + 1])
        if index and (codes[index] != codes[start] or begins):
            yield codes[start], ordinals[start], ordinals[index - 1]
            start, seen = index, set()
        seen.add(identity)
    if ordinals:
        yield codes[start], ordinals[start], ordinals[-1]
