"""The demo's tables: the same at the source and at the target.

The shop's foreign keys cascade, so that one statement of a client makes many changes: a customer's new code
changes that column in all of its orders, and deleting an order deletes its lines.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DemoTable:
    """A table that the demo compares at the end."""

    name: str
    key: tuple[str, ...]


TABLES = (
    DemoTable("pgbench_accounts", ("aid",)),
    DemoTable("pgbench_branches", ("bid",)),
    DemoTable("pgbench_tellers", ("tid",)),
    DemoTable("pgbench_history", ("id",)),
    DemoTable("customers", ("code",)),
    DemoTable("products", ("sku",)),
    DemoTable("orders", ("id",)),
    DemoTable("order_lines", ("order_id", "line")),
    DemoTable("probe", ("id",)),
)

#: pgbench creates its history without a primary key; a replicated table needs one.
HISTORY_KEY = "alter table pgbench_history add column id bigint generated always as identity primary key"

SHOP = """
create table customers (
    code        text primary key,
    name        text not null,
    since       timestamptz not null default now()
);
create table products (
    sku         text primary key,
    name        text not null,
    price       numeric(10, 2) not null check (price > 0),
    stock       integer not null
);
create table orders (
    id          bigint generated always as identity primary key,
    customer    text not null references customers on update cascade on delete cascade,
    status      text not null default 'new' check (status in ('new', 'paid', 'shipped')),
    total       numeric(12, 2) not null,
    placed_at   timestamptz not null default clock_timestamp()
);
create index on orders (customer);
create table order_lines (
    order_id    bigint not null references orders on update cascade on delete cascade,
    line        smallint not null,
    sku         text not null references products on update cascade,
    quantity    integer not null check (quantity > 0),
    price       numeric(10, 2) not null,
    primary key (order_id, line)
);
create index on order_lines (sku);
"""

#: one row that is updated periodically, to measure the latency to the target
PROBE = "create table probe (id integer primary key, beat bigint not null, at timestamptz not null)"
