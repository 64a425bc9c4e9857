"""The image: built from this checkout, run as it is in production, against the session's real Kafka and Postgres."""

import json

import pytest

from app.errors import ExitStatus
from app.ledger.migrate import head
from tests.fix_container import RunContainer, docker
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.workload import TABLES, Shop

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

#: the archive of Spark's classes, where the lane's JVM has mapped it
_ARCHIVE = (
    "import glob; print([m for p in glob.glob('/proc/*/maps') for m in open(p) if '.jsa' in m and 'classes/' in m])"
)
_UNCOMPILED = (
    "import importlib.util as u, pathlib as p; "
    "print([str(f) for d in ('app', 'migrations', 'venv/lib') for f in p.Path('/opt/surelane', d).rglob('*.py') "
    "if not p.Path(u.cache_from_source(f)).exists()])"
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


def test_migrations_are_a_one_shot(container: RunContainer) -> None:
    """`migrate` makes the schema and ends with 0, and again; without a configuration it says what to do."""
    for _ in range(2):
        once = container("migrate", "--json", SURELANE_TARGET__SCHEMA="other")
        assert once.wait() == ExitStatus.OK, once.log()
        assert head() in once.log()
    without = container("migrate", SURELANE_LANE="")
    assert without.wait() == ExitStatus.CONFIG
    assert "lane" in without.log()


def test_what_is_in_it(image: str) -> None:
    """Everything is compiled; nothing of tests, locks' tools or other systems is there; sizes are shown with -s."""
    start = ("run", "--rm", "--entrypoint", "python", image)
    assert docker(*start, "-c", _UNCOMPILED) == "[]"
    find = "import importlib.util as u; print([n for n in ('pip', 'setuptools', 'pytest', 'boto3') if u.find_spec(n)])"
    assert docker(*start, "-c", find) == "['boto3']"
    print(docker("image", "inspect", "--format", "{{.Size}} bytes", image))
    print(docker("run", "--rm", "--entrypoint", "du", image, "-m", "--max-depth=2", "/opt/surelane"))


def test_a_lane_that_is_away_is_unhealthy(image: str) -> None:
    """The check says no, and why, where nobody answers or nothing is to be asked."""
    start = ["run", "--rm", "--entrypoint", "sh", image, "-c"]
    assert "nobody answers" in docker(*start, "python -m app.healthcheck && exit 1 || true")
    assert "switch the check off" in docker(
        *start, "SURELANE_METRICS__PORT=0 python -m app.healthcheck && exit 1 || true"
    )
