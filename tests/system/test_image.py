"""The image: built from this checkout, run as it is in production, against the session's real Kafka and Postgres."""

import json

import pytest

from app.errors import ExitStatus
from app.ledger.revision import head
from tests.fix_console import Client
from tests.fix_container import RunContainer, docker
from tests.fix_http import Http
from tests.fix_locked import LOGIN, OWNER, PASSWORD, LockedTarget
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.workload import TABLES, Shop
from tools.devstack import Postgres

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

#: version of pg_dump and pg_restore, and of the oldest server that it restores into
CLIENT, RESTORES_FROM = 18, 17
#: the archive of Spark's classes, where the lane's JVM has mapped it
_ARCHIVE = (
    "import glob; print([m for p in glob.glob('/proc/*/maps') for m in open(p) if '.jsa' in m and 'classes/' in m])"
)
_UNCOMPILED = (
    "import importlib.util as u, pathlib as p; "
    "print([str(f) for d in ('app', 'migrations', 'venv/lib') for f in p.Path('/opt/surelane', d).rglob('*.py') "
    "if not p.Path(u.cache_from_source(f)).exists()])"
)
#: bytecode that goes by the time of its source: stale once every file has the same time, and never the same twice
_TIMED = (
    "import pathlib as p; "
    "print([str(f) for f in p.Path('/opt/surelane').rglob('*.pyc') if f.read_bytes()[4:8] != bytes([1, 0, 0, 0])])"
)


def test_a_lane_lives_in_the_image(container: RunContainer, target: Target, topic: Topic) -> None:
    """Healthy, not root, nothing written; SIGTERM under load ends with 0 and nothing prepared; the next one goes on."""
    target.create(*TABLES)
    shop = Shop(seed=11)
    topic.send(shop.messages(300))
    lane = container("run", SURELANE_EPOCH__MAX_MESSAGES="40")
    lane.until(lambda: lane.state("Health.Status") == "healthy", "the health check")
    lane.until(lambda: dict(target.position()) == topic.ends, "the lane to catch up")
    assert lane.run("id", "-u") == "10001"
    assert lane.run("cat", "/proc/1/comm") == "dumb-init"
    assert lane.run("python", "-m", "app.healthcheck", "/readyz") == "ready"
    assert lane.run("python", "-c", _ARCHIVE) != "[]", "the archive of classes is not used"
    assert json.loads(lane.run("surelane", "status", "--json"))["state"] == "running"
    assert docker("diff", lane.name) == ""
    end = topic.end
    topic.send(shop.messages(2000))
    lane.until(lambda: max(target.position().values()) > end, "the lane to be in the middle")
    assert lane.stop() == ExitStatus.OK, lane.log()[-3000:]
    assert "stopping at the end of the epoch" in lane.log()
    assert target.prepared() == []
    last = container("run", "--until-caught-up")
    assert last.wait() == ExitStatus.OK, last.log()[-3000:]
    questions(target, topic)


def test_the_console_in_the_image(container: RunContainer, target: Target, http: Http) -> None:
    """Healthy by the image's own check, behind a login, nothing written; SIGTERM ends it with 0."""
    port, token = http.port, "a-token-of-the-tests-0123456789"
    words = ("console", "--host", "0.0.0.0", "--port", str(port), "--allow-actions")
    console = container(*words, SURELANE_CONSOLE_TOKEN=token)
    console.until(lambda: console.state("Health.Status") == "healthy", "the health check")
    client = Client(port)
    assert client.get("/api/lanes").status == 401
    (shown,) = client.get("/api/lanes", Authorization=f"Bearer {token}").json["lanes"]
    assert (shown["lane"], shown["trouble"]) == (target.lane, None)
    assert client.get("/static/uPlot.iife.min.js").status == 200
    assert client.log_in(token=token).status == 303
    assert client.get(f"/lanes/{target.lane}/now").status == 200
    assert docker("diff", console.name) == ""
    assert console.stop() == ExitStatus.OK, console.log()[-3000:]


def test_migrations_are_a_one_shot(container: RunContainer, target: Target) -> None:
    """`migrate` fills the schema and ends with 0, and again; without a configuration it says what to do."""
    target.execute(f"create schema other authorization {OWNER}")
    for _ in range(2):
        once = container("migrate", "--json", SURELANE_TARGET__SCHEMA="other")
        assert once.wait() == ExitStatus.OK, once.log()
        assert head() in once.log()
    without = container("migrate", SURELANE_LANE="")
    assert without.wait() == ExitStatus.CONFIG
    assert "lane" in without.log()


def test_a_snapshot_is_taken_and_restored(container: RunContainer, target: Target, target_server: Postgres) -> None:
    """By the client in the image, with the driver `dump`; into a server that is too old for it nothing is begun."""
    target.execute("create table kept (id int primary key)")
    target.execute("insert into kept select generate_series(1, 100)")
    copy = f"{target.database}_copy"
    for words in (("create", "--name", "one"), ("verify", "one")):
        once = container("snapshot", *words)
        assert once.wait() == ExitStatus.OK, once.log()
    ((version,),) = target_server.execute("select current_setting('server_version_num')::int / 10000")
    try:
        once = container("snapshot", "restore", "one", "--to", target_server.url(copy))
        if int(str(version)) < RESTORES_FROM:
            assert once.wait() == ExitStatus.ENVIRONMENT, once.log()
            assert f"postgresql-client-{version}" in once.log()
            assert not target_server.execute("select from pg_database where datname like %s", f"{copy}%")
        else:
            assert once.wait() == ExitStatus.OK, once.log()
            assert target_server.execute("select count(*) from kept", database=copy) == [(100,)]
    finally:
        target_server.execute(f'drop database if exists "{copy}"')


def test_the_clients_come_by_tls(image: str, locked_target: LockedTarget) -> None:
    """The server refuses connections without TLS."""
    program = f"/usr/lib/postgresql/{CLIENT}/bin/pg_dump"
    url = locked_target.locked.url(locked_target.database, LOGIN, sslmode="require", sslrootcert="")
    start = ("run", "--rm", "--network", "host", "--env", f"PGPASSWORD={PASSWORD}", "--entrypoint", program, image)
    words = ("--schema-only", f"--role={OWNER}", f"--dbname={url.replace('+psycopg2', '')}")
    assert f"-- Dumped by pg_dump version {CLIENT}." in docker(*start, *words)


@pytest.mark.parametrize(
    "loads",
    [
        "from app.decode.scan_loader import load",
        "from app.kafka.gather import loaded as load",
        "from app.stage.instants import loaded as load",
    ],
)
def test_what_decodes_is_compiled(loads: str, image: str) -> None:
    """For any processor, and found there by a user who may not write to it."""
    start = ("run", "--rm", "--entrypoint", "python", image)
    output = docker(*start, "-c", f"import sys; {loads}; load(); print(*sys.modules)")
    assert "llvmlite" in output.split()
    assert "numba" not in output.split()


def test_what_is_in_it(image: str) -> None:
    """Everything is compiled; no jar is fetched, also for MSK; nothing of tests, locks' tools or other systems is
    there; sizes are shown with -s."""
    start = ("run", "--rm", "--entrypoint", "python", image)
    assert docker(*start, "-c", _UNCOMPILED) == docker(*start, "-c", _TIMED) == "[]"
    find = "import importlib.util as u; print([n for n in ('pip', 'setuptools', 'pytest', 'boto3') if u.find_spec(n)])"
    assert docker(*start, "-c", find) == "['boto3']"
    held = "from app.jars import jars; print([path.name for name in ('spark', 'msk') for path in jars(name)])"
    found = docker("run", "--rm", "--network", "none", *start[2:], "-c", held)
    assert all(name in found for name in ("spark-sql-kafka", "aws-msk-iam-auth"))
    print(docker("image", "inspect", "--format", "{{.Size}} bytes", image))
    print(docker("run", "--rm", "--entrypoint", "du", image, "-m", "--max-depth=2", "/opt/surelane"))


def test_a_lane_that_is_away_is_unhealthy(image: str) -> None:
    """The check says no, and why, where no server answers, and where none is configured."""
    start = ["run", "--rm", "--entrypoint", "sh", image, "-c"]
    assert "no answer" in docker(*start, "python -m app.healthcheck && exit 1 || true")
    assert "switch the check off" in docker(
        *start, "SURELANE_METRICS__PORT=0 python -m app.healthcheck && exit 1 || true"
    )
