"""The setup: a fresh stack whose source is filled before Debezium takes its snapshot."""

from tools.demo.programs import initialise
from tools.demo.tables import HISTORY_KEY, PROBE, SHOP
from tools.devstack import Stack
from tools.devstack.roles import CAPTURE, LOGIN, SOURCE, make_roles
from tools.devstack.stack import DATABASE

#: overrides of the connector's settings: Debezium logs in with its own role, and the publication exists already
AS_CAPTURE = {"database.user": CAPTURE, "publication.autocreate.mode": "disabled"}
#: pgbench -I: drop, create tables, generate rows (with a TRUNCATE, which would stop a lane), primary keys
SOURCE_STEPS, TARGET_STEPS = "dtgp", "dtp"

CUSTOMERS, PRODUCTS = 200, 50
FILL_CUSTOMERS = "insert into customers (code, name) select 'C' || n, 'Customer ' || n from generate_series(1, %s) n"
FILL_PRODUCTS = (
    "insert into products select 'P' || n, 'Product ' || n, 1 + n * 7 %% 90 + 0.95, 1000 from generate_series(1, %s) n"
)
FILL_PROBE = "insert into probe values (1, 0, clock_timestamp())"


def prepare_databases(stack: Stack) -> None:
    """Start both databases and create their tables, with rows in the source only; Kafka and Debezium do not run yet."""
    stack.up(kafka=False, connect=False)
    _prepare_source(stack)
    _prepare_target(stack)


def _prepare_source(stack: Stack) -> None:
    initialise(stack.source.url(DATABASE), SOURCE_STEPS)
    for statement in (HISTORY_KEY, SHOP, PROBE, FILL_PROBE):
        stack.source.execute(statement, database=DATABASE)
    stack.source.execute(FILL_CUSTOMERS, CUSTOMERS, database=DATABASE)
    stack.source.execute(FILL_PRODUCTS, PRODUCTS, database=DATABASE)
    make_roles(stack.source.url(DATABASE), SOURCE, publication=DATABASE)


def _prepare_target(stack: Stack) -> None:
    """Create the tables as superuser; the lane may write their rows, as ops/postgres/roles.sql grants.

    The lane's login has session_replication_role = replica: the source has checked foreign keys and run their cascades,
    which arrive as separate changes. Postgres' subscriptions do the same. `snapshots` needs track_commit_timestamp.
    """
    stack.target.execute(f"alter role {LOGIN} set session_replication_role = replica")
    stack.target.execute("alter system set track_commit_timestamp = on")
    stack.target.restart()
    initialise(stack.target.url(DATABASE), TARGET_STEPS)
    for statement in (HISTORY_KEY, SHOP, PROBE):
        stack.target.execute(statement, database=DATABASE)
