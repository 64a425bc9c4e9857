-- Roles of the source database. Run it there as a superuser (on Amazon RDS: as the master user), and again whenever tables
-- were created. It sets no passwords. Other names: SET surelane.capture = '...' (.reader, .publication, .schema) before it.
--
--   surelane_capture   Debezium's: REPLICATION, and reads the tables of the publication; writes nothing. The publication is
--                      made here, so the connector needs no right to make one: publication.autocreate.mode=disabled
--   surelane_reader    `surelane verify --against`: reads, nothing else

select set_config('surelane.' || name, coalesce(nullif(current_setting('surelane.' || name, true), ''), value), false)
from (values
  ('capture', 'surelane_capture'),
  ('reader', 'surelane_reader'),
  ('publication', 'surelane'),  -- publication.name of the connector
  ('schema', 'public')
) as given (name, value);

do $roles$
declare
  capture name := current_setting('surelane.capture');
  reader name := current_setting('surelane.reader');
  publication name := current_setting('surelane.publication');
  tables name := current_setting('surelane.schema');
  plain constant text := 'nosuperuser nocreatedb nocreaterole nobypassrls';
  who name;
  one regclass;
begin
  foreach who in array array[capture, reader] loop
    if not exists (select from pg_roles where rolname = who) then
      execute format('create role %I', who);
    end if;
    execute format('alter role %I login connection limit 10', who);
    execute format('grant connect on database %I to %I', current_database(), who);
    execute format('grant usage on schema %I to %I', tables, who);
    execute format('grant select on all tables in schema %I to %I', tables, who);
    execute format('alter default privileges in schema %I grant select on tables to %I', tables, who);
  end loop;
  execute format('alter role %I set default_transaction_read_only = on', reader);  -- a seat belt: the grants are the lock
  -- on a managed service only a superuser may run these
  if exists (select from pg_roles where rolname = 'rds_replication') then
    execute format('grant rds_replication to %I', capture);
  else
    execute format('alter role %I %s replication', capture, plain);
    execute format('alter role %I %s noreplication', reader, plain);
  end if;
  if not exists (select from pg_publication where pubname = publication) then
    execute format('create publication %I', publication);
  end if;
  for one in
    select c.oid::regclass from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = tables and c.relkind in ('r', 'p') and not c.relispartition and not exists (
      select from pg_publication p left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid
      where p.pubname = publication and (p.puballtables or r.prrelid is not null))
  loop
    execute format('alter publication %I add table %s', publication, one);
  end loop;
end
$roles$;
