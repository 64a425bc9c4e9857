"""A distance between the measured system and its Postgres: a proxy that delays (`proxy`), and what it comes to."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2

from tools.devstack.ports import LOOPBACK
from tools.testbed.servers import Distance, Servers

PROXY = Path(__file__).with_name("proxy.py")
#: round trips whose median counts
_TRIPS = 200


def at_distance(
    servers: Servers, milliseconds: float | None, measure: Callable[[Servers], dict[str, Any]]
) -> dict[str, Any]:
    """What is measured with the target so far away from the system; probes keep their short way. None: no proxy. With a
    proxy, also what `SELECT 1` takes there, and directly.

    What a proxy without delay adds is a part of `milliseconds`: so 0.1 is a proxy that does not delay, or hardly.
    """
    if milliseconds is None:
        return measure(servers)
    port = servers.target_port
    direct = _round_trip(servers, port)
    with proxied(port, 0.0) as plain:
        added = _round_trip(servers, plain.port) - direct
    with proxied(port, max(0.0, milliseconds - added)) as delayed:
        taken = {"select_milliseconds": _round_trip(servers, delayed.port), "direct_milliseconds": direct}
        return {**taken, **measure(replace(servers, distance=delayed))}


@contextmanager
def proxied(port: int, milliseconds: float) -> Iterator[Distance]:
    """A proxy in front of this port, for round trips so much longer."""
    command = [sys.executable, "-S", str(PROXY), str(port), str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "a pipe"
            yield Distance(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


def _round_trip(servers: Servers, port: int) -> float:
    """Milliseconds of `SELECT 1` over this port."""
    connection = psycopg2.connect(servers.stack.target.url(), host=LOOPBACK, port=port)
    connection.autocommit = True
    taken: list[float] = []
    with connection.cursor() as cursor:
        for _ in range(_TRIPS):
            begin = time.perf_counter()
            cursor.execute("select 1")
            taken.append(time.perf_counter() - begin)
    connection.close()
    return round(statistics.median(taken) * 1000, 3)
