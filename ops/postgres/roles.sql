-- Roles of the target database, with no more than each needs. Run it in that database as a superuser (on Amazon RDS: as
-- the master user), before `surelane migrate`, and again whenever tables were created by another role. It changes
-- nothing that is right already, sets no passwords, and works with every client: psql -f ops/postgres/roles.sql
--
--   surelane_owner     cannot log in. Owns the schema `surelane` and writes the target's tables; their sequences it reads
--                      (a dump keeps them) and draws from (a column's default)
--   surelane           the lane logs in as this one, and works as the owner (target.owner_role: surelane_owner): it has
--                      nothing of its own, so its password can change while a transaction is prepared
--   surelane_operator  a person. Reads everything; to answer what is in doubt it becomes the owner. Postgres lets only the
--                      role that prepared a transaction end it (or a superuser), so a role that may answer may also write,
--                      by SET ROLE and never by accident
--   surelane_reader    monitoring and `surelane verify --against`: reads, nothing else
--
-- Tables in another schema: SET surelane.schema = '...' and run it once more. Not given, since not every lane needs it:
-- ownership of the tables (schema_evolution: add-columns), and CREATE on the database (`surelane replay` into a schema).
--
-- Other names: SET surelane.owner = '...' (.login, .operator, .reader, .own_schema, .schema, .connections) before it.

select set_config('surelane.' || name, coalesce(nullif(current_setting('surelane.' || name, true), ''), value), false)
from (values
  ('owner', 'surelane_owner'),
  ('login', 'surelane'),
  ('operator', 'surelane_operator'),
  ('reader', 'surelane_reader'),
  ('own_schema', 'surelane'),   -- target.schema
  ('schema', 'public'),         -- where the target's tables are
  ('connections', '40')         -- a lane takes about seven, each partition of `order: partition` two more
) as given (name, value);

do $roles$
declare
  owner name := current_setting('surelane.owner');
  login name := current_setting('surelane.login');
  operator name := current_setting('surelane.operator');
  reader name := current_setting('surelane.reader');
  own_schema name := current_setting('surelane.own_schema');
  tables name := current_setting('surelane.schema');
  plain constant text := 'nosuperuser nocreatedb nocreaterole noreplication nobypassrls';
  one name;
begin
  foreach one in array array[owner, login, operator, reader] loop
    if not exists (select from pg_roles where rolname = one) then
      execute format('create role %I', one);
    end if;
  end loop;
  -- on a managed service only a superuser may run these, and no role has them that was not given them
  if (select rolsuper from pg_roles where rolname = current_user) then
    foreach one in array array[owner, login, operator, reader] loop
      execute format('alter role %I %s', one, plain);
    end loop;
  end if;
  execute format('alter role %I nologin noinherit', owner);
  -- noinherit: what the owner may, they may only once they have become the owner
  execute format('alter role %I login noinherit connection limit %s', login, current_setting('surelane.connections')::int);
  execute format('alter role %I login noinherit connection limit 10', operator);
  execute format('alter role %I login connection limit 10', reader);
  -- by default a schema that is named like the role comes before public
  execute format('alter role %I set search_path = public', login);
  execute format('alter role %I set default_transaction_read_only = on', reader);  -- a seat belt: the grants are the lock
  execute format('grant %I to %I, %I', owner, login, operator);

  foreach one in array array[login, operator, reader] loop
    execute format('grant connect on database %I to %I', current_database(), one);
  end loop;
  -- since Postgres 15 this is so by itself
  execute format('revoke create on schema %I from public', tables);

  -- Surelane's own schema
  if not exists (select from pg_namespace where nspname = own_schema) then
    if not pg_has_role(current_user, owner, 'member') then
      execute format('grant %I to %I', owner, current_user);  -- on a managed service: to give it a schema
    end if;
    execute format('create schema %I authorization %I', own_schema, owner);
  end if;
  foreach one in array array[operator, reader] loop
    execute format('grant usage on schema %I, %I to %I', own_schema, tables, one);
    execute format('grant select on all tables in schema %I, %I to %I', own_schema, tables, one);
    execute format('alter default privileges for role %I in schema %I grant select on tables to %I', owner, own_schema, one);
    execute format('alter default privileges for role %I in schema %I grant select on tables to %I', owner, tables, one);
    execute format('alter default privileges in schema %I grant select on tables to %I', tables, one);
  end loop;

  -- the target's tables: rows, not their shape. `schema_evolution: add-columns` needs the owner to own them:
  -- ALTER TABLE ... OWNER TO surelane_owner
  execute format('grant usage on schema %I to %I', tables, owner);
  execute format('grant select, insert, update, delete on all tables in schema %I to %I', tables, owner);
  execute format('alter default privileges in schema %I grant select, insert, update, delete on tables to %I', tables, owner);
  execute format('grant usage, select on all sequences in schema %I to %I', tables, owner);
  execute format('alter default privileges in schema %I grant usage, select on sequences to %I', tables, owner);
end
$roles$;

-- whom a prepared transaction blocks: sessions of others are shown to these only
do $monitor$
begin
  execute format('grant pg_read_all_stats to %I, %I', current_setting('surelane.operator'), current_setting('surelane.reader'));
  if current_setting('server_version_num')::int >= 160000 then  -- before, a role inherits all of its grants or none
    execute format('grant pg_read_all_stats to %I with inherit true', current_setting('surelane.operator'));
  end if;
exception when insufficient_privilege then
  raise notice 'pg_read_all_stats was not granted: other sessions are shown without their statements';
end
$monitor$;
