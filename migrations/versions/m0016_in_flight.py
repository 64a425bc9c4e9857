"""What the stage processes of a running lane have in hand, for `surelane status`."""

from alembic import op

from app.db.sql import run

revision = "0016"
down_revision = "0015"

DDL = """
-- written once a second by the lane's monitor, where something has changed; no epoch's transaction has a part in it
create table in_flight (
    lane            text not null,
    generation      bigint not null,       -- of the writer; rows of another generation than the newest mean nothing
    number          bigint not null,       -- of the request, within its driver; negative: a process without any
    host            text,                  -- of the executor; null: no process has it yet
    slot            integer,               -- resident job
    pid             integer,               -- stage process
    state           text not null check (state in (
        'idle',                            -- process without a span
        'waiting', 'fetch', 'decode', 'function', 'arrange', 'server',  -- on its way
        'staged',                          -- in staging tables, waits for its turn
        'answered', 'cancelled')),
    start_position  jsonb not null,        -- {topic: {partition: offset}}
    end_position    jsonb not null,
    since           timestamptz not null,  -- begin of the state, by this server's clock
    bytes           bigint not null,       -- of decoded rows that are staged ahead
    primary key (lane, generation, number)
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
