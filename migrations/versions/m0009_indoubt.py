"""Answers that operators gave to prepared transactions.

    intended -+-> done      COMMIT PREPARED or ROLLBACK PREPARED has gone through
              +-> failed    it has not; `outcome` says why

Neither of the two commands can run inside a transaction, so a row is `intended` before it, and its end is written after
it. One that stays `intended` belongs to a process that died in between: the next answer to this gid finds out and ends
it.
"""

from alembic import op

from app.db.sql import run

revision = "0009"
down_revision = "0008"

DDL = """
create table indoubt_answer (
    id          bigint generated always as identity primary key,
    lane        text not null,             -- of the configuration that was used
    gid         text not null,
    generation  bigint,                    -- null: no gid of Surelane's
    epoch       bigint,
    answer      text not null check (answer in ('commit', 'rollback')),
    verdict     text not null check (verdict in ('commit', 'rollback', 'orphan', 'unsure', 'foreign')),
    forced      boolean not null,          -- the verdict did not ask for this answer
    reason      text,
    evidence    jsonb not null,            -- what the verdict was made of
    db_user     text not null default session_user,
    os_user     text not null,
    host        text not null,
    state       text not null default 'intended' check (state in ('intended', 'done', 'failed')),
    outcome     text,
    at          timestamptz not null default clock_timestamp(),
    ended_at    timestamptz,
    constraint forced_with_reason check (not forced or reason is not null),
    constraint forced_against_verdict
        check (forced or answer = case verdict when 'orphan' then 'rollback' else verdict end),
    constraint ended check ((state = 'intended') = (ended_at is null))
);
create unique index on indoubt_answer (gid) where state = 'intended';
create index on indoubt_answer (gid);

create function indoubt_answer_step() returns trigger language plpgsql as $$
declare
    ends constant text[] = array['state', 'outcome', 'ended_at'];
begin
    if tg_op = 'INSERT' then
        if new.state <> 'intended' then
            raise exception using errcode = 'SL001', message = 'an answer cannot begin as ' || new.state;
        end if;
        return new;
    end if;
    if old.state <> 'intended' and tg_op = 'UPDATE' or old.state = 'intended' and tg_op = 'DELETE' then
        raise exception using errcode = 'SL001',
            message = 'answer ' || old.id || ' is ' || old.state || ': it cannot be '
                || case tg_op when 'UPDATE' then 'changed' else 'deleted' end;
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    if to_jsonb(new) - ends <> to_jsonb(old) - ends then
        raise exception using errcode = 'SL001', message = 'answer ' || old.id || ' was given: nothing of it changes';
    end if;
    return new;
end $$;
create trigger indoubt_answer_step before insert or update or delete on indoubt_answer
    for each row execute function indoubt_answer_step();
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
