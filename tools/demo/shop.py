"""The order shop: a client that inserts, updates and deletes orders and customers, and updates products."""

import random
from collections import Counter
from collections.abc import Callable

import psycopg2
from psycopg2.extensions import cursor as Cursor  # a class, despite its lowercase name

MAX_LINES = 6
#: kind of transaction -> weight
WEIGHTS = {"order": 45, "progress": 25, "cancel": 10, "reprice": 8, "rename": 5, "register": 4, "forget": 3}
#: seconds between two transactions
EVERY_SECONDS = 0.04

_ORDER = "insert into orders (customer, total) select code, 0 from customers order by random() limit 1 returning id"
_LINES = """
insert into order_lines select %(order)s, row_number() over (), sku, 1 + (random() * 4)::int, price
from (select sku, price from products order by random() limit %(lines)s) chosen
"""
_TOTAL = """
update orders set total = (select sum(quantity * price) from order_lines where order_id = %(order)s)
where id = %(order)s
"""
_STOCK = """
update products set stock = stock - l.quantity from order_lines l where l.order_id = %(order)s and l.sku = products.sku
"""
_PROGRESS = """
update orders set status = case status when 'new' then 'paid' else 'shipped' end
where id in (select id from orders where status <> 'shipped' order by random() limit 5)
"""
_CANCEL = "delete from orders where id = (select id from orders where status = 'new' order by random() limit 1)"
_REPRICE = """
update products set price = round(price * (0.9 + random() * 0.2)::numeric, 2) + 0.01
where sku in (select sku from products order by random() limit 5)
"""
_RENAME = """
update customers set code = 'C' || %(number)s
where code = (select customer from orders order by random() limit 1)
"""
_REGISTER = "insert into customers (code, name) values ('C' || %(number)s, 'Customer ' || %(number)s)"
_FORGET = "delete from customers where code = (select customer from orders order by random() limit 1)"


class Shop:
    """One client of the source; each `step` is one transaction."""

    def __init__(self, url: str, seed: int = 7, first_number: int = 1_000_000) -> None:
        """New customers have numbers after `first_number`."""
        self._connection = psycopg2.connect(url, application_name="shop")
        self._random = random.Random(seed)  # not for cryptography
        self._number = first_number
        #: number of transactions by kind
        self.done: Counter[str] = Counter()
        self._kinds: dict[str, Callable[[Cursor], None]] = {
            "order": self._order,
            "progress": lambda cursor: cursor.execute(_PROGRESS),
            "cancel": lambda cursor: cursor.execute(_CANCEL),
            "reprice": lambda cursor: cursor.execute(_REPRICE),
            "rename": lambda cursor: cursor.execute(_RENAME, self._next_number()),
            "register": lambda cursor: cursor.execute(_REGISTER, self._next_number()),
            "forget": lambda cursor: cursor.execute(_FORGET),
        }

    def step(self) -> None:
        """Run one transaction of a random kind, drawn by weight."""
        (kind,) = self._random.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
        with self._connection, self._connection.cursor() as cursor:
            self._kinds[kind](cursor)
        self.done[kind] += 1

    def close(self) -> None:
        self._connection.close()

    def _order(self, cursor: Cursor) -> None:
        cursor.execute(_ORDER)
        row = cursor.fetchone()
        values = {"order": row[0] if row else None, "lines": self._random.randint(1, MAX_LINES)}
        for statement in (_LINES, _TOTAL, _STOCK):
            cursor.execute(statement, values)

    def _next_number(self) -> dict[str, int]:
        self._number += 1
        return {"number": self._number}
