-- Debezium's role in the source database. Run it there as a superuser (on Amazon RDS: as the master user). It sets no
-- password. Other names: SET surelane.capture = '...' (.publication, .schema) before it.
--
--   surelane_capture   REPLICATION, and reads the tables of the publication; writes nothing. The publication is made here,
--                      so the connector needs no right to make one: publication.autocreate.mode=disabled

select set_config('surelane.' || name, coalesce(nullif(current_setting('surelane.' || name, true), ''), value), false)
from (values
  ('capture', 'surelane_capture'),
  ('publication', 'surelane'),  -- publication.name of the connector
  ('schema', 'public')
) as given (name, value);

do $roles$
declare
  capture name := current_setting('surelane.capture');
  publication name := current_setting('surelane.publication');
  tables name := current_setting('surelane.schema');
  one regclass;
begin
  if not exists (select from pg_roles where rolname = capture) then
    execute format('create role %I', capture);
  end if;
  execute format('alter role %I login connection limit 10', capture);
  if exists (select from pg_roles where rolname = 'rds_replication') then
    execute format('grant rds_replication to %I', capture);
  else
    execute format('alter role %I nosuperuser nocreatedb nocreaterole nobypassrls replication', capture);
  end if;
  execute format('grant connect on database %I to %I', current_database(), capture);
  execute format('grant usage on schema %I to %I', tables, capture);
  execute format('grant select on all tables in schema %I to %I', tables, capture);
  execute format('alter default privileges in schema %I grant select on tables to %I', tables, capture);
  if not exists (select from pg_publication where pubname = publication) then
    execute format('create publication %I', publication);
  end if;
  for one in
    select c.oid::regclass from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = tables and c.relkind in ('r', 'p') and not c.relispartition and not exists (
      select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
      where p.pubname = publication and r.prrelid = c.oid)
  loop
    execute format('alter publication %I add table %s', publication, one);
  end loop;
end
$roles$;
