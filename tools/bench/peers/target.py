"""The table that everybody writes to, as a JDBC driver wants to have it."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tools.bench.servers import Servers
from tools.bench.tables import SIMPLE, Table

#: workloads `uniform` and `hot` have this one
TABLE: Table = SIMPLE[0]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where it is."""

    #: without options
    jdbc: str
    user: str
    table: str

    @classmethod
    def of(cls, servers: Servers) -> Self:
        """In the benchmark's own database; no password is asked for."""
        url = urlsplit(servers.url)
        return cls(
            jdbc=f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}", user=url.username or "", table=TABLE.name
        )
