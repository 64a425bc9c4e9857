"""How long values are compressed that a lane writes."""

import pytest

from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, Debezium, Table

NOTE = Table("note", {"id": INT, "v": TEXT})
#: 40 kB that become less
LONG = "a row that is long, for the most part because it says the same. " * 640


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("select 1", "lz4"),
        ("alter table note alter column v set compression pglz", "pglz"),
        ("alter database {database} set default_toast_compression = pglz", "pglz"),
    ],
    ids=["none", "the column", "the database"],
)
def test_lz4_is_the_default_compression(lane: MakeLane, target: Target, topic: Topic, chosen: str, found: str) -> None:
    """A choice of the target's owner holds."""
    target.create(NOTE)
    target.execute(chosen.format(database=f'"{target.database}"'))
    topic.send([Debezium().create(NOTE, {"id": number, "v": f"{number} {LONG}"}) for number in range(3)])
    made = lane("two-phase")
    made.run_until_caught_up()
    assert target.execute("select pg_column_compression(v), count(*) from note group by 1") == [(found, 3)]
    assert target.execute("select count(*) from note where v = id || ' ' || :v", v=LONG) == [(3,)]
