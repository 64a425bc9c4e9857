"""Checks of the target's tables for policies, triggers and rules that hide, drop or change the lane's rows."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from app.cli.doctor_checks.finding import Finding, fault, warn
from app.cli.doctor_checks.table_check import some
from app.config.routes import Routes
from app.config.settings import Settings

#: one row for each table that is no partition, including what its partitions have. A trigger's or rule's `enabled` is
#: compared with the session's session_replication_role, which ALTER ROLE may have set
_TABLES = text("""
    select n.nspname as schema, root.relname as name, bool_or(row_security_active(c.oid)) as has_policies,
           array_agg(distinct g.tgname::text) filter (where g.tgtype & 3 = 3) as before,
           array_agg(distinct g.tgname::text) filter (where g.tgtype & 3 <> 3) as others,
           array_agg(distinct r.rulename::text) filter (where r.oid is not null) as rules
    from pg_class root join pg_namespace n on n.oid = root.relnamespace
      join pg_class c on c.oid = root.oid or c.oid in (select relid from pg_partition_tree(root.oid))
      left join pg_trigger g on g.tgrelid = c.oid and not g.tgisinternal and g.tgenabled = any(cast(:fires as "char"[]))
        and g.tgname !~ '^rollup_[0-9a-f]{24}_'
      left join pg_rewrite r on r.ev_class = c.oid and r.ev_type in ('2', '3', '4')
        and r.ev_enabled = any(cast(:fires as "char"[]))
    where root.relkind in ('r', 'p') and not root.relispartition
      and n.nspname not in ('pg_catalog', 'information_schema', :own) and n.nspname !~ '^pg_(toast|temp)'
    group by 1, 2 order by 1, 2
""")
_SESSION = text("select current_setting('session_replication_role') = 'replica', session_user")
#: `pg_trigger.tgenabled`, `pg_rewrite.ev_enabled`: always; in a session that is no replica; in a replica session
_ALWAYS, _ORIGIN, _REPLICA = "A", "O", "R"


def swallowing(connection: Connection, settings: Settings) -> list[Finding]:
    """Findings on row-level security, triggers and rules that apply to the lane; `connection` is like the lane's."""
    routes = Routes(settings.target.tables)
    is_replica, login = connection.execute(_SESSION).one()
    fires = [_ALWAYS, _REPLICA if is_replica else _ORIGIN]
    rows = connection.execute(_TABLES, {"own": settings.target.db_schema, "fires": fires}).all()
    found = [row for row in rows if routes.reaches(row.schema, row.name)]
    return [*_policies(found, settings.target.owner_role or login), *_triggers(found, login), *_rules(found)]


def _policies(found: Sequence[Row[Any]], role: str) -> Iterator[Finding]:
    if hidden := [f"{row.schema}.{row.name}" for row in found if row.has_policies]:
        problem = f"row-level security would hide rows from the lane, which ends with an error instead: {some(hidden)}"
        yield fault("row security", problem, f'as a superuser: ALTER ROLE "{role}" BYPASSRLS;')


def _triggers(found: Sequence[Row[Any]], login: str) -> Iterator[Finding]:
    advice = (
        f'ALTER ROLE "{login}" SET session_replication_role = replica; leaves them out for the lane, checks of foreign '
        "keys too (needs a superuser, rds_superuser, or GRANT SET ON PARAMETER). Or one by one: "
        "ALTER TABLE ... DISABLE TRIGGER ..."
    )
    if before := _named(found, "before"):
        problem = f"BEFORE ROW triggers may drop rows (the lane stops then) or change them once more: {some(before)}"
        yield warn("triggers", problem, advice)
    if others := _named(found, "others"):
        yield warn("triggers", f"these fire a second time, after those of the source: {some(others)}", advice)


def _rules(found: Sequence[Row[Any]]) -> Iterator[Finding]:
    if rules := _named(found, "rules"):
        problem = f"rules may drop or change what the lane sends: {some(rules)}"
        yield warn("rules", problem, "DROP RULE ...; or ALTER TABLE ... DISABLE RULE ...")


def _named(found: Sequence[Row[Any]], what: str) -> list[str]:
    return [f"{name} of {row.schema}.{row.name}" for row in found for name in getattr(row, what) or ()]
