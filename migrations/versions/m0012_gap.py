"""Gaps that operators accepted: messages that a lane never applied, and goes on behind.

A row is written in the transaction that moves the lane's position, so the ledger never jumps without one.
"""

from alembic import op

from app.db.sql import run

revision = "0012"
down_revision = "0011"

DDL = """
create table gap (
    id             bigint generated always as identity primary key,
    lane           text not null,
    generation     bigint not null,        -- its ledger row, epoch -1, goes from `from_position` to `to_position`
    from_position  jsonb not null,         -- {topic: {partition: offset}}, the next offset to read, as in the ledger
    to_position    jsonb not null,
    missing        bigint,                 -- offsets that Kafka had deleted; null: a topic was made anew, nobody knows
    anew           jsonb not null,         -- {topic: [id that was pinned, id now, or null where it is gone]}
    cluster        jsonb,                  -- [id that was pinned, id now]; null: the same
    reason         text not null check (btrim(reason) <> ''),
    db_user        text not null default session_user,
    os_user        text not null,
    host           text not null,
    at             timestamptz not null default clock_timestamp(),
    unique (lane, generation)
);

create function gap_stays() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'SL001', message = 'gap ' || old.id || ' was accepted: nothing of it changes';
end $$;
create trigger gap_stays before update or delete on gap for each row execute function gap_stays();
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
