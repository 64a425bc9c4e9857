"""A target that needs TLS and a password or certificate, with the roles of ops/postgres/roles.sql."""

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg2 import sql
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from app.db.engine import make_engine
from app.ledger.migrations import upgrade
from app.server_user import server_user
from tests.certificates import Authority, given_to
from tests.fix_servers import LOCKED
from tests.fix_target import SCHEMA, Target, give_roles
from tools.devstack import Postgres, Stack
from tools.devstack.roles import LOGIN, OPERATOR, OWNER, READER
from tools.devstack.stack import TARGET_SETTINGS

#: logs in by a certificate, and works as the owner
BY_CERTIFICATE = "surelane_certificate"
#: what a URL has to quote
PASSWORD = "m4rked p@ss/w:rd%41"
_HBA = f"""
host    all postgres            127.0.0.1/32 trust
hostssl all {BY_CERTIFICATE}    127.0.0.1/32 cert
hostssl all all                 127.0.0.1/32 scram-sha-256
"""
_number = itertools.count(1)


@dataclass(frozen=True)
class Locked:
    """The server, and whom to trust."""

    server: Postgres
    authority: Authority
    #: of roles that log in by password
    passwords: Path

    def set_password(self, role: str, password: str) -> None:
        statement = sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(password))
        self.server.execute(statement)

    def url(self, database: str, user: str | None = LOGIN, host: str = "127.0.0.1", **query: str) -> str:
        """As a configuration has it: TLS that looks at the server's name; `password_from` is for the caller to add."""
        port = self.server.url().rpartition(":")[2].partition("/")[0]
        options = {"sslmode": "verify-full", "sslrootcert": str(self.authority.certificate), **query}
        words = "&".join(f"{name}={value}" for name, value in options.items() if value)
        return f"postgresql+psycopg2://{f'{user}@' if user else ''}{host}:{port}/{database}?{words}"


class LockedTarget(Target):
    """The lane comes by `url`, as a login without rights that takes OWNER's role; queries run as the superuser."""

    def __init__(self, locked: Locked, database: str, lane: str) -> None:
        self.server, self.database, self.lane, self.locked = locked.server, database, lane, locked
        self.owner_role = OWNER
        self.url = locked.url(database, password_from=f"file:{locked.passwords}")
        plain = locked.server.url(database).replace("postgresql:", "postgresql+psycopg2:")
        self.engine = create_engine(plain, poolclass=NullPool)


@pytest.fixture(scope="session")
def locked(servers: Stack, target_server: Postgres) -> Iterator[Locked]:
    """Its data is beside that of the session's other servers, which Postgres' user can reach."""
    folder = servers.data_dir / f"{LOCKED}-files"
    folder.mkdir()
    authority = Authority(folder / "certificates")
    server = authority.sign("server")
    if user := server_user():
        given_to(user.pw_uid, folder / "certificates", *vars(server).values(), authority.certificate)
    hba = folder / "pg_hba.conf"
    hba.write_text(_HBA)
    settings = {
        **TARGET_SETTINGS,
        "shared_buffers": "64MB",
        "ssl": "on",
        "ssl_cert_file": str(server.certificate),
        "ssl_key_file": str(server.key),
        "ssl_ca_file": str(authority.certificate),
        "hba_file": str(hba),
    }
    postgres = Postgres(servers.data_dir / LOCKED, settings=settings)
    passwords = folder / "password"
    passwords.write_text(PASSWORD)
    made = Locked(postgres, authority, passwords)
    try:
        postgres.start()
        give_roles(postgres, "postgres")
        for role in (LOGIN, OPERATOR, READER):
            made.set_password(role, PASSWORD)
        postgres.execute(f"create role {BY_CERTIFICATE} login noinherit")
        postgres.execute(f"grant {OWNER} to {BY_CERTIFICATE}")
        yield made
    finally:
        postgres.kill()


@pytest.fixture
def locked_target(locked: Locked) -> Iterator[LockedTarget]:
    """A new database, migrated by the lane's own login."""
    name = f"locked{next(_number)}-{uuid.uuid4().hex[:4]}"
    locked.server.create_database(name)
    give_roles(locked.server, name)
    made = LockedTarget(locked, name, f"lane-{name}")
    engine = make_engine(made.url, OWNER)
    upgrade(engine, SCHEMA)
    yield made
    locked.server.start()  # in case the test left it stopped
    for role in (LOGIN, OPERATOR, READER):
        locked.set_password(role, PASSWORD)
    made.drop()
