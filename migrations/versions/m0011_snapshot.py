"""Snapshots that were taken of this database, for the metrics of a running lane. What is whole, the manifests say."""

from alembic import op

from app.db.sql import run

revision = "0011"
down_revision = "0010"

DDL = """
create table snapshot (
    name      text primary key,
    lane      text not null,               -- of the configuration, also with order: partition
    driver    text not null check (driver in ('basebackup', 'dump', 'rds')),
    at        timestamptz not null,        -- begin of its making, so its content is not older
    position  jsonb not null,              -- {topic: {partition: offset}}: what is in it reaches at least so far
    exact     boolean not null,            -- and no further
    bytes     bigint not null,
    place     text not null                -- host:directory of its manifest
);
create index on snapshot (lane, at);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
