"""The roles of ops/postgres, which demo and tests work with as a production would."""

from pathlib import Path

import psycopg2

#: as the scripts call them
OWNER, LOGIN, OPERATOR, READER = "surelane_owner", "surelane", "surelane_operator", "surelane_reader"
CAPTURE = "surelane_capture"
TARGET, SOURCE = "roles.sql", "source-roles.sql"
_SCRIPTS = Path(__file__).resolve().parents[2] / "ops" / "postgres"


def make_roles(url: str, script: str = TARGET, **names: str) -> None:
    """Run a script in the database of `url`, which is a superuser's; `names` are the script's settings."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for name, value in names.items():
                cursor.execute("select set_config(%s, %s, false)", (f"surelane.{name}", value))
            cursor.execute((_SCRIPTS / script).read_text())
    finally:
        connection.close()
