"""Engines of the databases that pages read, whose connections are kept between two pages."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.engine import make_engine

APPLICATION = "surelane console"
#: seconds that a page waits for a connection, and for the first answer of one that was kept
ANSWER_SECONDS = 3
#: connections to a database that are kept
KEPT = 2
#: seconds since its last use for which a connection is taken without a question
FRESH_SECONDS = 1.0
_USED_AT = "surelane_used_at"


class KeptEngines:
    """One for each database and role, whichever lanes are there. Used by several threads."""

    def __init__(self) -> None:
        self._engines: dict[tuple[URL, str | None], Engine] = {}
        self._used_at: dict[Engine, float] = {}
        self._lock = threading.Lock()

    def of(self, url: URL, role: str | None) -> Engine:
        with self._lock:
            if (url, role) not in self._engines:
                self._engines[url, role] = self._made(url, role)
            return self._engines[url, role]

    def close_idle(self, idle_seconds: float) -> None:
        """Close the connections that no page has used for so long."""
        with self._lock:
            idle = [engine for engine, at in self._used_at.items() if time.monotonic() - at >= idle_seconds]
        for engine in idle:
            engine.dispose()

    def _made(self, url: URL, role: str | None) -> Engine:
        engine = make_engine(url, role, APPLICATION, connect_timeout=ANSWER_SECONDS, kept=KEPT)
        self._used_at[engine] = time.monotonic()

        @event.listens_for(engine, "connect")
        @event.listens_for(engine, "checkin")
        def used(_: object, entry: ConnectionPoolEntry) -> None:
            entry.info[_USED_AT] = self._used_at[engine] = time.monotonic()

        @event.listens_for(engine, "checkout")
        def check(driver: Any, entry: ConnectionPoolEntry, _: object) -> None:
            self._used_at[engine] = now = time.monotonic()
            if now - entry.info[_USED_AT] > FRESH_SECONDS:
                _check_answers(driver)

        return engine


def _check_answers(driver: Any) -> None:
    """Raise InvalidatePoolError unless the server answers in time: the pool then opens others."""
    try:
        with _cut_after(driver, ANSWER_SECONDS), driver.cursor() as cursor:
            cursor.execute("select")
            driver.rollback()
    except psycopg2.Error as error:
        raise InvalidatePoolError from error


@contextmanager
def _cut_after(driver: Any, seconds: float) -> Iterator[None]:
    """End the connection if the block takes longer: libpq waits without limit for a server whose machine is alive."""
    with socket.socket(fileno=os.dup(driver.fileno())) as own:
        timer = threading.Timer(seconds, own.shutdown, [socket.SHUT_RDWR])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
