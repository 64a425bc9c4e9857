"""Quarantine: messages that were skipped, kept whole, with everything that was done with them.

    quarantined -+-> released     applied after all, because an operator asked for it
    parked ------+-> discarded    given up by an operator
                 +-> superseded   a newer change of its key was applied: released now, the row would go back ...
    superseded -----> released    ... so only by force, with a reason

quarantined: could not be applied. parked: could be, but follows one that could not. Released and discarded are final.
Entries are written in the transaction of the epoch that skips them, as the ledger's row is.

quarantine         a row for each message                (`quarantine_step` allows the transitions above and no other)
quarantine_event   a row for each thing done with one    (written by `quarantine_told`)
"""

from alembic import op

from app.db.sql import run

revision = "0003"
down_revision = "0002"

DDL = """
create table quarantine (
    id                    bigint generated always as identity primary key,
    lane                  text not null,
    topic                 text not null,
    partition             int not null,
    "offset"              bigint not null,
    key                   bytea,               -- key, value and headers are the message's own, byte for byte
    value                 bytea,
    headers               json not null,       -- [[name, base64 or null], ...]; not jsonb, which refuses NUL in a name
    timestamp_ms          bigint,              -- as Kafka has it: a timestamptz does not hold every number
    source_schema         text,                -- null: the message could not be decoded
    source_table          text,
    key_text              bytea,               -- the key as the lane compares it, in UTF-8; a text cannot hold NUL
    stage                 text check (stage in ('decode', 'transform', 'apply', 'process', 'epoch')),
    verdict               text check (verdict in ('retry', 'stop', 'poison')),
    error_class           text,
    error                 text,
    sqlstate              text,
    attempts              int not null,        -- 0: parked without having been tried
    generation            bigint not null,     -- of the epoch that skipped it
    epoch                 bigint not null,
    state                 text not null
        check (state in ('quarantined', 'parked', 'released', 'discarded', 'superseded')),
    quarantined_at        timestamptz not null default clock_timestamp(),
    changed_at            timestamptz not null default clock_timestamp(),
    release_requested_at  timestamptz,         -- the lane releases it between two epochs, or says why not
    release_requested_by  text,
    release_forced        boolean not null default false,
    release_reason        text,
    release_refused       text,
    unique (lane, topic, partition, "offset"),
    constraint released_on_request check (state <> 'released' or release_requested_at is not null),
    constraint forced_with_reason check (not release_forced or release_reason is not null)
);
create index on quarantine (lane, state);
create index on quarantine (lane) where release_requested_at is not null and release_refused is null;
create table quarantine_event (
    event       bigint generated always as identity primary key,
    id          bigint not null references quarantine on delete cascade,
    at          timestamptz not null default clock_timestamp(),
    what        text not null check (what in ('kept', 'changed', 'release requested', 'release refused')),
    from_state  text,
    to_state    text not null,
    db_user     text not null default session_user,
    who         text,                          -- user@host of the command line; null: the lane, or somebody's SQL
    reason      text
);
create index on quarantine_event (id);

-- SQLSTATE SL001 belongs to no class that is held against a message: a wrong step is never the message's fault.
create function quarantine_step() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        if old.state in ('quarantined', 'parked') then
            raise exception using errcode = 'SL001',
                message = 'quarantine entry ' || old.id || ' is ' || old.state || ': discard it before it is deleted';
        end if;
        return old;
    end if;
    if tg_op = 'INSERT' then
        if new.state not in ('quarantined', 'parked') then
            raise exception using errcode = 'SL001',
                message = 'a quarantine entry cannot begin as ' || new.state;
        end if;
        return new;
    end if;
    if new.state <> old.state then
        if not (old.state in ('quarantined', 'parked') and new.state in ('released', 'discarded', 'superseded')
                or old.state = 'superseded' and new.state = 'released' and new.release_forced) then
            raise exception using errcode = 'SL001',
                message = 'quarantine entry ' || old.id || ' cannot go from ' || old.state || ' to ' || new.state;
        end if;
        new.changed_at = clock_timestamp();
    end if;
    return new;
end $$;
create trigger quarantine_step before insert or update or delete on quarantine
    for each row execute function quarantine_step();

-- After the row, so that an insert that met an entry already there leaves no word.
create function quarantine_told() returns trigger language plpgsql set search_path from current as $$
declare
    said_by text = nullif(current_setting('surelane.who', true), '');
    said    text = nullif(current_setting('surelane.reason', true), '');
begin
    if tg_op = 'INSERT' then
        insert into quarantine_event (id, what, to_state) values (new.id, 'kept', new.state);
        return null;
    end if;
    if new.release_requested_at is distinct from old.release_requested_at then
        insert into quarantine_event (id, what, from_state, to_state, who, reason)
        values (new.id, 'release requested', old.state, old.state, new.release_requested_by, new.release_reason);
    end if;
    if new.release_refused is distinct from old.release_refused and new.release_refused is not null then
        insert into quarantine_event (id, what, from_state, to_state, reason)
        values (new.id, 'release refused', old.state, old.state, new.release_refused);
    end if;
    if new.state <> old.state then
        if new.state = 'released' then
            said_by = new.release_requested_by;
            said = new.release_reason;
        end if;
        insert into quarantine_event (id, what, from_state, to_state, who, reason)
        values (new.id, 'changed', old.state, new.state, said_by, said);
    end if;
    return null;
end $$;
create trigger quarantine_told after insert or update on quarantine
    for each row execute function quarantine_told();
"""


def upgrade() -> None:
    """Create the tables in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
