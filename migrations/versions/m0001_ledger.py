"""Ledger: what a target database knows about the lanes that write to it.

generation   a row for each incarnation of a lane       (inserted at its start, never changed)
lane         who may write now                          (generation only ever grows: fencing)
topic        which Kafka topics the lane is pinned to
ledger       a row for each epoch, written in the same transaction as its data
lane_state   what the writer last said of itself: starting -> running -> stopped | failed
"""

from alembic import op

revision = "0001"
down_revision = None

DDL = """
create table lane (
    lane        text primary key,
    generation  bigint not null,           -- of the one writer allowed; a takeover raises it, the older is fenced
    cluster_id  text                       -- Kafka's, pinned at the first start
);
create table generation (
    lane        text not null,
    generation  bigint not null,
    checkpoint  text not null,             -- id of the checkpoint it runs on: epochs are numbered within a checkpoint
    delivery    text not null,
    host        text not null,
    pid         int not null,
    started_at  timestamptz not null default clock_timestamp(),
    primary key (lane, generation)
);
create table topic (
    lane        text not null,
    topic       text not null,
    topic_id    text not null,             -- Kafka's; a topic deleted and made again has another one
    primary key (lane, topic)
);
create table ledger (
    lane            text not null,
    generation      bigint not null,
    epoch           bigint not null,       -- -1: where the lane was told to start
    start_position  jsonb not null,        -- {topic: {partition: offset}}, next offset to read
    end_position    jsonb not null,
    consumed        bigint not null,
    applied         bigint not null,
    compacted       bigint not null,
    filtered        bigint not null,
    duplicate       bigint not null,
    quarantined     bigint not null,
    plan            text not null,
    source_from     timestamptz,           -- oldest and newest source commit in the epoch
    source_to       timestamptz,
    applied_at      timestamptz not null default clock_timestamp(),
    primary key (lane, generation, epoch),
    constraint accounting check (consumed = applied + compacted + filtered + duplicate + quarantined)
);
create table lane_state (
    lane        text primary key,
    state       text not null check (state in ('starting', 'running', 'stopped', 'failed')),
    last_error  text,
    changed_at  timestamptz not null default clock_timestamp()
);

-- Debezium writes a decimal as the bytes of its unscaled integer: big-endian, two's complement.
create function decimal_of(unscaled bytea, scale int) returns numeric language sql immutable strict parallel safe as $$
    select case when length(unscaled) <= 7 then
        ('x' || lpad(encode(unscaled, 'hex'), 16, case when get_byte(unscaled, 0) >= 128 then 'f' else '0' end))
            ::bit(64)::bigint::numeric
    else
        (select round(sum(get_byte(unscaled, i) * power(256::numeric, length(unscaled) - 1 - i)))
         from generate_series(0, length(unscaled) - 1) i)
        - case when get_byte(unscaled, 0) >= 128 then round(power(256::numeric, length(unscaled))) else 0 end
    end * ('1e' || -scale)::numeric
$$;

-- Debezium writes bit(1) as a boolean, and longer bit strings as base64 of whole bytes, the last bits first.
create function bits_of(wire text, length int) returns text language sql immutable strict parallel safe as $$
    select case wire when 'true' then '1' when 'false' then '0' else
        right((select string_agg(get_byte(decode(wire, 'base64'), i)::bit(8)::text, '' order by i desc)
               from generate_series(0, length(decode(wire, 'base64')) - 1) i), length)
    end
$$;
"""


def upgrade() -> None:
    """Create the tables in the schema that `app.ledger.migrations` put first on the search path."""
    op.get_bind().exec_driver_sql(DDL)
