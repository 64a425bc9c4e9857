"""A made-up shop that does everything that is hard to apply in another order; the same for the same seed.

Foreign keys, unique values that change owners, keys that change, parents that go once their children have moved, one
hot row, texts that COPY has to escape. The shop keeps its own tables, so every change was legal at the source.
"""

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests import messages as m
from tests.messages import Debezium, Message, Row, Table

CUSTOMER = Table(
    "customer",
    {"id": m.BIGINT, "email": m.TEXT, "name": m.TEXT, "credit": m.numeric(12, 2), "since": m.DATE},
    constraints=("unique (email)",),
)
ORDERS = Table(
    "orders",
    {"id": m.BIGINT, "customer_id": m.BIGINT, "status": m.TEXT, "placed": m.TIMESTAMP, "paid": m.BOOL},
    constraints=("foreign key (customer_id) references customer",),
)
LINE = Table(
    "order_line",
    {"order_id": m.BIGINT, "line": m.INT, "sku": m.TEXT, "quantity": m.INT, "price": m.numeric(10, 4)},
    key=("order_id", "line"),
    constraints=("foreign key (order_id) references orders",),
)
SETTING = Table("Setting", {"name": m.TEXT, "value": m.TEXT, "changed": m.TIMESTAMPTZ}, key=("name",))
COUNTER = Table("counter", {"id": m.INT, "hits": m.BIGINT})
TABLES = (CUSTOMER, ORDERS, LINE, SETTING, COUNTER)

_TEXTS = (
    "",
    "plain",
    "tab\there",
    "line\nbreak",
    "back\\slash",
    "\\N",
    "\\.",
    "\r\n",
    "äöü €",
    "🦀",
    '"quoted"',
    "a,b",
    " ",
)
_HOT_KEYS = 5
_BEGINNING = datetime.datetime(2024, 2, 28, 23, 59, 59, 999999)


class Shop:
    """Gives messages, in the order in which the source committed them; `table -> key -> row` is in `rows`."""

    def __init__(self, seed: int = 1, *, envelope: bool = False) -> None:
        self.debezium = Debezium(envelope=envelope)
        self._random = random.Random(seed)
        self.rows: dict[str, dict[m.Key, Row]] = {table.full_name: {} for table in TABLES}
        self._next = 0
        self._made: list[Message] = []

    def messages(self, count: int) -> list[Message]:
        """At least `count` further messages, ending with the end of a transaction."""
        while len(self._made) < count:
            self._transaction()
        made, self._made = self._made, []
        return made

    def _transaction(self) -> None:
        work: list[tuple[int, Callable[[], None]]] = [
            (6, self._new_customer),
            (6, self._new_order),
            (6, self._pay_order),
            (3, self._delete_order),
            (2, self._swap_emails),
            (2, self._hand_over),
            (4, self._set),
            (2, self._rename_setting),
            (10, self._hit),
            (2, self._transfer),
            (1, self._noise),
        ]
        (action,) = self._random.choices([action for _, action in work], [weight for weight, _ in work])
        self._made.append(self.debezium.begin())
        action()
        self._made.append(self.debezium.end())

    def _put(self, table: Table, row: Row) -> None:
        rows, key = self.rows[table.full_name], table.key_of(row)
        write = self.debezium.update if key in rows else self.debezium.create
        self._made.append(write(table, row))
        rows[key] = row

    def _drop(self, table: Table, row: Row) -> None:
        del self.rows[table.full_name][table.key_of(row)]
        self._made += [self.debezium.delete(table, row), self.debezium.tombstone(table, row)]

    def _any(self, table: Table) -> Row | None:
        rows = list(self.rows[table.full_name].values())
        return self._random.choice(rows) if rows else None

    def _id(self) -> int:
        self._next += 1
        return self._next

    def _text(self) -> str:
        return self._random.choice(_TEXTS) + str(self._random.randrange(100))

    def _new_customer(self) -> None:
        number = self._id()
        since = _BEGINNING.date() + datetime.timedelta(days=self._random.randrange(-30000, 30000))
        credit = Decimal(self._random.randrange(-(10**9), 10**9)).scaleb(-2)
        self._put(
            CUSTOMER, {"id": number, "email": f"{number}@shop", "name": self._text(), "credit": credit, "since": since}
        )

    def _new_order(self) -> None:
        customer = self._any(CUSTOMER)
        if customer is None:
            return self._new_customer()
        number = self._id()
        placed = _BEGINNING + datetime.timedelta(microseconds=self._random.randrange(-(10**16), 10**16))
        order = {"id": number, "customer_id": customer["id"], "status": "new", "placed": placed, "paid": None}
        self._put(ORDERS, order)
        for line in range(self._random.randrange(1, 4)):
            price = Decimal(self._random.randrange(10**8)).scaleb(-4)
            sku = self._text()
            self._put(LINE, {"order_id": number, "line": line, "sku": sku, "quantity": line * 7, "price": price})
        return None

    def _pay_order(self) -> None:
        if order := self._any(ORDERS):
            self._put(ORDERS, {**order, "status": "paid", "paid": self._random.choice([True, False, None])})

    def _delete_order(self) -> None:
        if order := self._any(ORDERS):
            for line in self._lines(order["id"]):
                self._drop(LINE, line)
            self._drop(ORDERS, order)

    def _lines(self, order: int) -> list[Row]:
        return [row for row in self.rows[LINE.full_name].values() if row["order_id"] == order]

    def _swap_emails(self) -> None:
        """Both rows change, neither can be written first: a unique value needs a place to wait."""
        one, other = self._any(CUSTOMER), self._any(CUSTOMER)
        if one and other and one["id"] != other["id"]:
            self._put(CUSTOMER, {**one, "email": f"waiting for {other['id']}"})
            self._put(CUSTOMER, {**other, "email": one["email"]})
            self._put(CUSTOMER, {**one, "email": other["email"]})

    def _hand_over(self) -> None:
        """A customer goes; the orders move to another, and a new customer takes the email."""
        one, other = self._any(CUSTOMER), self._any(CUSTOMER)
        if one and other and one["id"] != other["id"]:
            for order in [row for row in self.rows[ORDERS.full_name].values() if row["customer_id"] == one["id"]]:
                self._put(ORDERS, {**order, "customer_id": other["id"]})
            self._drop(CUSTOMER, one)
            self._put(CUSTOMER, {**one, "id": self._id()})

    def _set(self) -> None:
        self._put(SETTING, self._setting(f"{self._random.choice(_TEXTS)}{self._random.randrange(30)}"))

    def _setting(self, name: str) -> dict[str, Any]:
        seconds = self._random.randrange(-(10**9), 2 * 10**9)
        changed = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        return {"name": name, "value": self._random.choice([None, self._text()]), "changed": changed}

    def _rename_setting(self) -> None:
        old = self._any(SETTING)
        name = f"renamed {self._random.randrange(30)}"
        if old and (name,) not in self.rows[SETTING.full_name]:
            del self.rows[SETTING.full_name][SETTING.key_of(old)]
            new = {**old, "name": name}
            self._made += self.debezium.rekey(SETTING, old, new)
            self.rows[SETTING.full_name][name,] = new

    def _hit(self) -> None:
        number = self._random.randrange(_HOT_KEYS)
        hits = self.rows[COUNTER.full_name].get((number,), {"hits": 0})["hits"]
        self._put(COUNTER, {"id": number, "hits": hits + 1})

    def _transfer(self) -> None:
        one, other = self._any(CUSTOMER), self._any(CUSTOMER)
        if one and other and one["id"] != other["id"]:
            self._put(CUSTOMER, {**one, "credit": one["credit"] - 1})
            self._put(CUSTOMER, {**other, "credit": other["credit"] + 1})

    def _noise(self) -> None:
        self._made += [self.debezium.heartbeat(), self.debezium.logical()]


def changes_of_few(table: Table, chance: random.Random, count: int) -> list[Message]:
    """Changes of 60 rows (id, v) in turns: the order of the epochs decides how they end."""
    d, ids, made = Debezium(), range(60), list[Message]()
    for number in range(count):
        row = {"id": chance.choice(ids), "v": str(number)}
        made.append(d.delete(table, row) if chance.random() < 0.2 else d.update(table, row))
    return made
