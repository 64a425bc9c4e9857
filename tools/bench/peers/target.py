"""The table that all systems write, in the form that JDBC needs."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tools.bench.servers import Servers
from tools.bench.tables import SIMPLE, Table

#: the table of the workloads `uniform` and `hot`
TABLE: Table = SIMPLE[0]


@dataclass(frozen=True, kw_only=True)
class Target:
    """JDBC address of the table."""

    #: URL without options
    jdbc: str
    user: str
    table: str

    @classmethod
    def of(cls, servers: Servers, table: str = TABLE.name) -> Self:
        """The table in the benchmark's database; it needs no password."""
        url = urlsplit(servers.url)
        return cls(jdbc=f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}", user=url.username or "", table=table)
