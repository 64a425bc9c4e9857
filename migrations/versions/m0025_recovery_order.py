"""Calls of recoveries, and whether a release was forced: who, why and how, as rows. How far a suspect is narrowed."""

from alembic import op

from app.db.sql import run

revision = "0025"
down_revision = "0024"

DDL = """
-- in the restored target, from the journal beside the snapshot: a row for each call of `surelane recover run`
create table recovery_order (
    id        bigint generated always as identity primary key,
    lane      text not null,               -- of the configuration
    snapshot  text not null,
    at        timestamptz not null,        -- of the call
    who       text not null,
    host      text not null,
    reason    text,
    place     text not null,               -- without a password
    port      integer,
    forced    boolean not null,            -- --roll-back-foreign
    anew      boolean not null,            -- --anew
    unique (lane, snapshot, at, who, host)
);

alter table quarantine_event
    add column forced boolean;             -- of a release; null: anything else

alter table suspect
    add column first_messages bigint not null default 0;  -- of the span that was suspected first; 0: not known

create or replace function quarantine_told() returns trigger language plpgsql set search_path from current as $$
declare
    said_by text = nullif(current_setting('surelane.who', true), '');
    said    text = nullif(current_setting('surelane.reason', true), '');
    forced  boolean;
begin
    if tg_op = 'INSERT' then
        insert into quarantine_event (id, what, to_state) values (new.id, 'kept', new.state);
        return null;
    end if;
    if new.release_requested_at is distinct from old.release_requested_at then
        insert into quarantine_event (id, what, from_state, to_state, who, reason, forced)
        values (new.id, 'release requested', old.state, old.state, new.release_requested_by, new.release_reason,
            new.release_forced);
    end if;
    if new.release_refused is distinct from old.release_refused and new.release_refused is not null then
        insert into quarantine_event (id, what, from_state, to_state, reason)
        values (new.id, 'release refused', old.state, old.state, new.release_refused);
    end if;
    if new.state <> old.state then
        if new.state = 'released' then
            said_by = new.release_requested_by;
            said = new.release_reason;
            forced = new.release_forced;
        end if;
        insert into quarantine_event (id, what, from_state, to_state, who, reason, forced)
        values (new.id, 'changed', old.state, new.state, said_by, said, forced);
    end if;
    return null;
end $$;
"""


def upgrade() -> None:
    """Change the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
