"""How things stand when the lane was stopped in good order."""

from dataclasses import dataclass

from sqlalchemy import Engine, text

from app.config.settings import Settings
from app.ledger.store import Ledger
from tools.demo.crash import in_doubt

#: after each of pgbench's transactions these are equal: what tellers, branches and accounts gained, and the history
_MONEY = text("""
    select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
           (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)
""")
_TRANSACTIONS = text("select count(*) from pgbench_history")
_VERSION = text("select split_part(current_setting('server_version'), ' ', 1)")


@dataclass(frozen=True, kw_only=True)
class DemoEnding:
    """What was found at the target."""

    #: what the lane last said of itself
    state: str
    in_doubt: tuple[str, ...]
    #: end of the ledger, and of the topic
    position: int
    topic_end: int
    #: balances of accounts, tellers and branches, and the sum of the history
    money: tuple[int, ...]
    pgbench_transactions: int
    #: the server's version
    postgres: str


def ending(settings: Settings, target: Engine, position: int, topic_end: int) -> DemoEnding:
    """Look at the target; the lane has ended."""
    with target.connect() as connection:
        state = Ledger(settings.target.db_schema, settings.lane).state(connection)
        money = connection.execute(_MONEY).one()
        version = connection.execute(_VERSION).scalar_one()
        transactions = connection.execute(_TRANSACTIONS).scalar_one()
    return DemoEnding(
        state=state.state if state else "unknown",
        in_doubt=in_doubt(target),
        position=position,
        topic_end=topic_end,
        money=tuple(int(amount) for amount in money),
        pgbench_transactions=transactions,
        postgres=version,
    )
