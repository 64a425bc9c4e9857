"""Alembic's entry: run the migrations on the connection and in the transaction of `app.ledger.migrations`.

There is no other way in (no `alembic.ini`, no URL here): lock, schema and search path are set there.
"""

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    version_table=attributes["version_table"],
    version_table_schema=attributes["schema"],
)
with context.begin_transaction():
    context.run_migrations()
