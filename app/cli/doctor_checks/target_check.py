"""Checks of the target: it is reachable, writable, set up for the commit mode, and its tables can be merged into."""

from sqlalchemy import Connection, Engine, text

from app.cli.doctor_checks.finding import Finding, Level, failed, fault, ok, warn
from app.cli.doctor_checks.long_row_check import long_rows
from app.cli.doctor_checks.rollup_check import rollups
from app.cli.doctor_checks.standby_check import standbys
from app.cli.doctor_checks.table_check import tables
from app.cli.doctor_checks.timeout_check import timeouts
from app.cli.doctor_checks.trigger_check import swallowing
from app.config.settings import CommitMode, Settings
from app.db.direct import check_direct
from app.db.engine import make_engine
from app.db.prepared import slots
from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.ledger import revision as revisions
from app.ledger.store import Ledger
from app.model.offsets import Offsets

#: Postgres 12 and older get no fixes any more; 13 is the oldest that RDS offers
OLDEST_MAJOR = 13
#: share of the server's prepared transactions in use from which on doctor warns
SLOTS_WARN = 0.8
_SERVER = text("""
    select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()
""")
_MAY_TAKE = text("select pg_has_role(session_user, oid, 'member') from pg_roles where rolname = :role")
_SCHEMA = text("select has_schema_privilege(oid, 'usage, create') from pg_namespace where nspname = :schema")
_CURRENT_SCHEMA = text("select current_schema(), current_user")
_SUPERUSER = text("select current_user from pg_roles where rolname = current_user and rolsuper")
_DATABASE = text("select has_database_privilege(current_database(), 'create'), current_user, current_database()")
_CONNECT = "is the server up, target.url right, and this machine let in (pg_hba.conf; on RDS the security group)?"
_ADVICE = (
    "ALTER SYSTEM SET max_prepared_transactions = 64; then restart the server. On Amazon RDS: in the DB parameter"
    " group and reboot. Or choose commit: ledger, which needs none"
)


def target(settings: Settings) -> list[Finding]:
    """All checks of the target database."""
    name = settings.target.url.render_as_string(hide_password=True)
    findings: list[Finding] = []
    try:
        login = _engine(settings, None)
        with translated(f"connecting to {name}"), login.connect() as connection:
            check_direct(login, connection)
            taken = owner_role(connection, settings)
            findings += [*server(connection, name), *taken]
        # without the role, the login itself runs the other checks
        role = None if any(finding.level is Level.FAULT for finding in taken) else settings.target.owner_role
        with translated("looking at the target"), _engine(settings, role).connect() as connection:
            findings += _as_the_lane(connection, settings)
    except SurelaneError as error:
        findings.append(failed("target", error, _CONNECT))
    return findings


def ledger_position(settings: Settings) -> Offsets | None:
    """Where the lane goes on; None: the ledger has no position or cannot be read."""
    schema, engine = settings.target.db_schema, _engine(settings, settings.target.owner_role)
    try:
        with translated("reading the ledger"), engine.connect() as connection:
            if revisions.current_revision(connection, schema) is None:
                return None
            last = Ledger(schema, settings.lane).last(connection)
    except SurelaneError:
        return None  # the target's own checks report the reason
    return last.span.end if last else None


def _engine(settings: Settings, role: str | None) -> Engine:
    return make_engine(settings.target.url, role, "surelane doctor")


def _as_the_lane(connection: Connection, settings: Settings) -> list[Finding]:
    schema = settings.target.db_schema
    revision = revisions.current_revision(connection, schema)
    findings = [migrations(revision, schema), own_schema(connection, schema), *search_path(connection, schema)]
    findings += superuser(connection)
    findings.append(timeouts(connection))
    findings += standbys(connection, settings)
    findings += tables(connection, settings)
    findings += swallowing(connection, settings)
    findings += long_rows(connection, settings)
    findings += rollups(connection, settings)
    if settings.mode is CommitMode.TWO_PHASE:
        findings.append(prepared_slots(*slots(connection)))
    return findings


def server(connection: Connection, name: str, *, key: str = "target.url") -> list[Finding]:
    """Whether the server's version is supported and it can be written; `key`: the configuration key that names it."""
    number, version, standby = connection.execute(_SERVER).one()
    findings = [ok("target", f"{name}, Postgres {version}")]
    if number // 10_000 < OLDEST_MAJOR:
        findings.append(fault("version", f"Postgres {version} is too old", f"use Postgres {OLDEST_MAJOR} or newer"))
    if standby:
        hint = f"point {key} at the primary (on RDS: the instance's or the cluster's writer endpoint)"
        findings.append(fault("target", "this server is a standby, it cannot be written", hint))
    return findings


def owner_role(connection: Connection, settings: Settings) -> list[Finding]:
    """Whether the login is a member of `owner_role`, which the second connection needs."""
    role = settings.target.owner_role
    if role is None:
        return []
    member = connection.execute(_MAY_TAKE, {"role": role}).scalar_one_or_none()
    login = settings.target.url.username
    if member is None:
        return [fault("owner_role", f"there is no role {role}", f'CREATE ROLE "{role}"; GRANT "{role}" TO "{login}";')]
    if not member:
        return [fault("owner_role", f"{login} is no member of {role}", f'GRANT "{role}" TO "{login}";')]
    return [ok("owner_role", f"{login} may act as {role}")]


def migrations(revision: str | None, schema: str) -> Finding:
    """Whether Surelane's schema has this version's revision."""
    if found := revisions.trouble(revision, schema):
        return fault("migrations", *found)
    return ok("migrations", f"schema {schema} is at revision {revision}")


def own_schema(connection: Connection, schema: str) -> Finding:
    """Whether ledger and staging tables can be made."""
    may = connection.execute(_SCHEMA, {"schema": schema}).scalar_one_or_none()
    may_create, user, database = connection.execute(_DATABASE).one()
    if may is None and not may_create:
        hint = f'GRANT CREATE ON DATABASE "{database}" TO "{user}"; or CREATE SCHEMA "{schema}" AUTHORIZATION "{user}";'
        return fault("schema", f"{user} may not create the schema {schema}", hint)
    if may is False:
        hint = f'GRANT USAGE, CREATE ON SCHEMA "{schema}" TO "{user}";'
        return fault("schema", f"{user} may not create tables in {schema}", hint)
    return ok("schema", f"{user} may create what it needs in {schema}")


def search_path(connection: Connection, schema: str) -> list[Finding]:
    """Warn where the login is named like Surelane's schema: tables that it creates without a schema land there."""
    current, user = connection.execute(_CURRENT_SCHEMA).one()
    if current != schema:
        return []
    hint = f'ALTER ROLE "{user}" SET search_path = public;'
    return [warn("search_path", f"tables that {user} creates without naming a schema land in {schema}", hint)]


def superuser(connection: Connection) -> list[Finding]:
    """Warn where the lane's role is a superuser: a mistake or a stolen password can then do everything."""
    user = connection.execute(_SUPERUSER).scalar_one_or_none()
    hint = "psql -f ops/postgres/roles.sql makes roles with the rights that are needed: docs/SECURITY.md"
    return [warn("privileges", f"{user} is a superuser", hint)] if user else []


def prepared_slots(used: int, limit: int) -> Finding:
    """Whether the server has prepared transactions left, which `commit: two-phase` needs."""
    if limit == 0:
        return fault("prepared", "max_prepared_transactions is 0: the server refuses PREPARE TRANSACTION", _ADVICE)
    if used >= limit * SLOTS_WARN:
        hint = "surelane indoubt list shows those of this database; SELECT * FROM pg_prepared_xacts those of the others"
        return warn("prepared", f"{used} of {limit} prepared transactions are in use", hint)
    return ok("prepared", f"{used} of {limit} prepared transactions are in use")
