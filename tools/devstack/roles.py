"""The roles of ops/postgres: demo and tests use the same roles as production."""

from pathlib import Path

import psycopg2

#: names in the scripts
OWNER, LOGIN, OPERATOR, READER = "surelane_owner", "surelane", "surelane_operator", "surelane_reader"
CAPTURE = "surelane_capture"
TARGET, SOURCE = "roles.sql", "source-roles.sql"
_SCRIPTS = Path(__file__).resolve().parents[2] / "ops" / "postgres"


def make_roles(url: str, script: str = TARGET, **names: str) -> None:
    """Run a script of ops/postgres in the database of `url`, which logs in as a superuser; `names` are its settings."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for name, value in names.items():
                cursor.execute("select set_config(%s, %s, false)", (f"surelane.{name}", value))
            cursor.execute((_SCRIPTS / script).read_text())
    finally:
        connection.close()
