"""Foreign keys between target tables of the lane: rows of one topic may refer to those of another."""

from sqlalchemy import Connection, text

from app.config.routes import Routes

_BETWEEN = text("""
    select childs.nspname as child_schema, child.relname as child,
           parents.nspname as parent_schema, parent.relname as parent, k.conname as name
    from pg_constraint k
    join pg_class child on child.oid = k.conrelid join pg_namespace childs on childs.oid = child.relnamespace
    join pg_class parent on parent.oid = k.confrelid join pg_namespace parents on parents.oid = parent.relnamespace
    where k.contype = 'f' and k.conparentid = 0 and k.conrelid <> k.confrelid
    order by 1, 2, 5
""")


def between_tables(connection: Connection, routes: Routes) -> list[str]:
    """`schema.child -> schema.parent` of each foreign key between two tables that the routes reach."""
    return [
        f"{row.child_schema}.{row.child} -> {row.parent_schema}.{row.parent}"
        for row in connection.execute(_BETWEEN)
        if routes.reaches(row.child_schema, row.child) and routes.reaches(row.parent_schema, row.parent)
    ]
