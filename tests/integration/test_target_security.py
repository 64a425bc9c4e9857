"""Postgres over TLS, with passwords that are looked up and change: a real server that asks for all of it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from moto import mock_aws
from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import OperationalError

import app.credentials.aws
from app.config.settings import CommitMode
from app.config.values import postgres_url
from app.credentials import passwords
from app.db.engine import make_engine
from app.db.locks import lock_holder, terminate, try_lock
from app.db.sqlstate import verdict_of
from app.errors import EnvironmentMissing, Verdict
from tests import messages as m
from tests.certificates import Authority
from tests.fix_lane import MODES, Hold, LaneUnderTest, MakeLane
from tests.fix_locked import BY_CERTIFICATE, PASSWORD, Locked, LockedTarget
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tools.devstack.roles import LOGIN, OWNER

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
REGION = "eu-central-1"
SECRET = "shop/surelane"
WHO = text("select session_user, current_user")
#: of its own session a login sees that, of its login's session a role does not
IS_TLS = text("select ssl from pg_stat_ssl where pid = pg_backend_pid()")


@pytest.fixture
def target(locked_target: LockedTarget) -> LockedTarget:
    """In place of the session's."""
    return locked_target


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    passwords._kept.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    passwords._kept.clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Secrets Manager, as moto has it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMADEUP0000000000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "m4rked-made-up")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield boto3.client("secretsmanager", region_name=REGION)


def side(url: str | URL, role: str | None = OWNER) -> tuple[Any, ...]:
    """Who the server says that we are, and whether over TLS."""
    with make_engine(postgres_url(url), role).connect() as connection:
        who = connection.execute(WHO).one()
        connection.execute(text("set role none"))
        return (*who, connection.execute(IS_TLS).scalar_one())


def with_role(**target: Any) -> dict[str, Any]:
    return {"owner_role": OWNER, **target}


def test_a_password_from_a_file_over_tls_that_looks_at_the_name(target: LockedTarget) -> None:
    assert side(target.url) == (LOGIN, OWNER, True)


def test_a_password_of_the_environment(target: LockedTarget, locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    assert side(locked.url(target.database, password_from="env:SHOP_PASSWORD")) == (LOGIN, OWNER, True)


def test_a_client_certificate(target: LockedTarget, locked: Locked) -> None:
    mine = locked.authority.sign(BY_CERTIFICATE)
    url = locked.url(target.database, BY_CERTIFICATE, sslcert=str(mine.certificate), sslkey=str(mine.key))
    assert side(url) == (BY_CERTIFICATE, OWNER, True)
    stranger = locked.authority.sign("stranger")
    url = locked.url(target.database, BY_CERTIFICATE, sslcert=str(stranger.certificate), sslkey=str(stranger.key))
    with pytest.raises(OperationalError, match="certificate authentication failed"):
        side(url)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"host": "localhost"}, "does not match host name"),
        ({"sslmode": "disable"}, "no pg_hba.conf entry"),
        ({"password_from": "file:/nowhere"}, None),
    ],
    ids=["another name", "without TLS", "no file"],
)
def test_what_is_refused(change: dict[str, str], problem: str | None, target: LockedTarget, locked: Locked) -> None:
    url = locked.url(target.database, **{"password_from": f"file:{locked.passwords}", **change})
    with pytest.raises(Exception, match=problem or "no file /nowhere"):
        side(url)


def test_a_server_of_another_authority_does_not_get_the_password(
    target: LockedTarget, locked: Locked, tmp_path: Path
) -> None:
    other = str(Authority(tmp_path, "another authority").certificate)
    url = locked.url(target.database, sslrootcert=other, password_from=f"file:{locked.passwords}")
    with pytest.raises(OperationalError, match="certificate verify failed"):
        side(url)


def test_a_wrong_password_may_be_right_later_and_is_not_shown(
    target: LockedTarget, locked: Locked, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("m4rked-wrong")
    with pytest.raises(OperationalError, match="password authentication failed") as caught:
        side(locked.url(target.database, password_from=f"file:{wrong}"))
    assert verdict_of(caught.value) is Verdict.RETRY
    assert "m4rked" not in str(caught.value)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_lane_in_every_mode(mode: CommitMode, target: LockedTarget, lane: MakeLane, topic: Topic) -> None:
    """A login without a right of its own, the rights of ops/postgres/roles.sql, TLS, a password that is looked up."""
    made = filled_topic(target, topic, lane(mode, target=with_role()))
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)
    assert {row.session for row in seen(target)} <= {LOGIN}


def filled_topic(target: LockedTarget, topic: Topic, made: LaneUnderTest) -> LaneUnderTest:
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": number, "v": "x"}) for number in range(100)])
    return made


def seen(target: LockedTarget) -> Any:
    return target.execute(
        "select usename session from pg_stat_activity where application_name like 'surelane%' and datname = :name",
        name=target.database,
    )


def test_the_session_of_the_writer_before_can_be_ended(target: LockedTarget) -> None:
    """To end a session one has to be its login, not the role that both work as; another login may not, and waits."""
    engine = make_engine(postgres_url(target.url), OWNER)
    with engine.connect() as old, engine.connect() as new:
        assert try_lock(old, target.lane)
        old.commit()
        holder = lock_holder(new, target.lane)
        assert holder is not None
        terminate(new, holder)
        assert new.execute(WHO).one() == (LOGIN, OWNER), "for that one statement"
        new.commit()
        eventually(lambda: try_lock(new, target.lane), 30, "the lock of the session that was ended")
        new.commit()
        with pytest.raises(OperationalError):
            old.execute(WHO)
        old.invalidate()


@pytest.mark.parametrize("rotation", ["same login", "another login"])
def test_a_password_that_changes_between_the_phases(
    rotation: str, target: LockedTarget, locked: Locked, lane: MakeLane, topic: Topic, hold: Hold, amazon: Any
) -> None:
    """Prepared by a session that is gone; who ends it logs in with what the secret says by then, and as the owner."""
    amazon.create_secret(Name=SECRET, SecretString=json.dumps({"username": LOGIN, "password": PASSWORD}))
    url = locked.url(target.database, None, password_from=f"secretsmanager:{SECRET}")
    made = filled_topic(target, topic, lane("two-phase", target=with_role(url=url)))
    held = hold("after-pre-commit")
    made.start()
    held.reached()
    (gid,) = target.prepared()
    login = LOGIN
    if rotation == "another login":
        login = f"{LOGIN}_clone"
        if not locked.server.execute("select from pg_roles where rolname = %s", login):
            locked.server.execute(f"create role {login} login noinherit in role {OWNER}")
    locked.set_password(LOGIN, "m4rked-unknown")
    locked.set_password(login, "m4rked-second")
    amazon.put_secret_value(SecretId=SECRET, SecretString=json.dumps({"username": login, "password": "m4rked-second"}))
    assert target.cut_connections() > 0
    held.release()
    made.until_caught_up(topic)  # by a session that ends what is left prepared: the lane starts again behind it
    eventually(lambda: {row.session for row in seen(target)} == {login}, why="the next start's session")
    made.stop()
    assert gid not in target.prepared()
    questions(target, topic)


def test_a_secret_is_asked_for_once_a_minute_and_when_it_is_refused(
    target: LockedTarget, locked: Locked, amazon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    really = app.credentials.aws.secret_string
    monkeypatch.setattr(
        app.credentials.aws, "secret_string", lambda name, region: (asked.append(name), really(name, region))[1]
    )
    arn = amazon.create_secret(Name=SECRET, SecretString=PASSWORD)["ARN"]
    url = locked.url(target.database, password_from=f"secretsmanager:{arn}")
    assert [side(url), side(url), side(url)] == [(LOGIN, OWNER, True)] * 3
    assert asked == [arn]
    locked.set_password(LOGIN, "m4rked-second")
    with pytest.raises(OperationalError, match="password authentication failed"):
        side(url)  # the database knows the new one, the secret not yet
    amazon.put_secret_value(SecretId=SECRET, SecretString="m4rked-second")
    assert side(url) == (LOGIN, OWNER, True)
    assert len(asked) == 3


def test_a_secret_that_cannot_be_had_says_which(locked: Locked, target: LockedTarget, amazon: Any) -> None:
    with pytest.raises(OperationalError, match=r"secret gone cannot be had: AWS says ResourceNotFoundException"):
        side(locked.url(target.database, password_from="secretsmanager:gone"))
    amazon.create_secret(Name="empty", SecretString='{"user": "m4rked"}')
    with pytest.raises(OperationalError, match="has no password in it") as caught:
        side(locked.url(target.database, password_from="secretsmanager:empty"))
    assert "m4rked" not in str(caught.value)


def test_a_token_of_rds_is_made_for_each_connection(
    target: LockedTarget, locked: Locked, amazon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes, as RDS does, the very token that was signed last; who looks at its signature is Amazon."""
    made: list[str] = []
    really = app.credentials.aws.rds_token

    def signed(host: str, port: int, user: str, region: str | None) -> str:
        made.append(really(host, port, user, region))
        locked.set_password(user, made[-1])
        return made[-1]

    monkeypatch.setattr(app.credentials.aws, "rds_token", signed)
    url = locked.url(target.database, password_from=f"rds-iam:{REGION}")
    assert [side(url), side(url)] == [(LOGIN, OWNER, True)] * 2
    assert len(made) == 2
    token = urlsplit(f"https://{made[0]}")
    query = parse_qs(token.query)
    assert (token.hostname, token.port) == ("127.0.0.1", make_url(url).port)
    assert (query["Action"], query["DBUser"], query["X-Amz-Expires"]) == (["connect"], [LOGIN], ["900"])
    assert f"/{REGION}/rds-db/" in query["X-Amz-Credential"][0]


def test_the_region_of_a_token_is_that_of_the_host(amazon: Any) -> None:
    host = "shop.abc123.ap-southeast-2.rds.amazonaws.com"
    url = make_url(f"postgresql+psycopg2://surelane@{host}/shop?sslmode=verify-full&password_from=rds-iam")
    began = time.time()
    filled = passwords.filled(url)
    assert "/ap-southeast-2/rds-db/" in parse_qs(urlsplit(f"https://{filled.password}").query)["X-Amz-Credential"][0]
    assert time.time() - began < 5, "no service on the network was asked"
    assert "password_from" not in filled.query


@pytest.mark.usefixtures("no_aws_identity")
def test_without_an_identity_there_is_no_token() -> None:
    url = make_url("postgresql+psycopg2://me@h.abc.eu-west-1.rds.amazonaws.com/d?sslmode=require&password_from=rds-iam")
    with pytest.raises(EnvironmentMissing, match="no credentials of AWS"):
        passwords.filled(url)


def test_a_lane_waits_for_a_secret_that_is_wrong_for_a_while(
    target: LockedTarget, locked: Locked, lane: MakeLane, topic: Topic, tmp_path: Path
) -> None:
    own = tmp_path / "password"
    own.write_text("not yet")
    url = locked.url(target.database, password_from=f"file:{own}")
    made = filled_topic(target, topic, lane("two-phase", target=with_role(url=url)))
    made.start()
    eventually(lambda: "not running" in made.health.ready().reason, 60, "the first attempt to fail")
    own.write_text(PASSWORD)
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
