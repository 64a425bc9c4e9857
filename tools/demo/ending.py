"""The target's state after a graceful stop of the lane."""

from dataclasses import dataclass

from sqlalchemy import Engine, text

from app.config.settings import Settings
from app.ledger.store import Ledger
from tools.demo.crash import in_doubt

#: these four sums are equal after each pgbench transaction
_MONEY = text("""
    select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
           (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)
""")
_TRANSACTIONS = text("select count(*) from pgbench_history")
_VERSION = text("select split_part(current_setting('server_version'), ' ', 1)")


@dataclass(frozen=True, kw_only=True)
class DemoEnding:
    """The final state of the target, and the end of the topic."""

    #: from the lane's last row in `lane_state`
    state: str
    in_doubt: tuple[str, ...]
    #: end of the ledger, and of the topic
    position: int
    topic_end: int
    #: sums of the balances of accounts, tellers and branches, and of the deltas in the history
    money: tuple[int, ...]
    pgbench_transactions: int
    #: server version
    postgres: str


def ending(settings: Settings, target: Engine, position: int, topic_end: int) -> DemoEnding:
    """Read the target's state; the lane must have ended."""
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
