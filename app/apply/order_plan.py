"""The order in which an epoch's changes are sent to the target.

The fast plans send only the last change of each key, one DELETE and one INSERT a table. Whether the target's foreign
keys and unique constraints accept that depends on the order of the statements, so the plans are tried one after the
other, each in a subtransaction; the faithful plan sends every change in its place and is right whenever the source was.

    DELETES_FIRST   frees unique values before they are taken again; children's rows go before their parents'
    UPSERTS_FIRST   moves children to other parents before the old parents go
    FAITHFUL        runs of neighbouring changes that have one table, one kind and no key twice; a key change is
                    an UPDATE, as at the source
"""

import enum
from collections.abc import Iterable, Iterator

from app.apply.target_tables import TargetTable
from app.epoch.epoch_batch import EpochBatch


class OrderPlan(enum.StrEnum):
    """The name is recorded in the ledger."""

    NONE = "none"  #: the epoch carried no change for the target
    DELETES_FIRST = "deletes-first"
    UPSERTS_FIRST = "upserts-first"
    FAITHFUL = "faithful"
    NARROWED = "narrowed"  #: in parts, since the guard suspected a message: see `app.lane.applying`


#: tried in this order
ATTEMPTS = (OrderPlan.DELETES_FIRST, OrderPlan.UPSERTS_FIRST, OrderPlan.FAITHFUL)
#: plans of an epoch for which the first attempt was not enough
FALLBACKS = (OrderPlan.UPSERTS_FIRST, OrderPlan.FAITHFUL, OrderPlan.NARROWED)


def parents_first(tables: Iterable[TargetTable]) -> list[TargetTable]:
    """Tables sorted so that those a foreign key references come before those that hold it; within a cycle by name."""
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

    A run never contains two changes of one key, so a statement cannot meet its own work. Both halves of a key change
    are runs by themselves.
    """
    alone = {*epoch.key_changes, *epoch.key_changes.values()}
    changes = epoch.changes
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
