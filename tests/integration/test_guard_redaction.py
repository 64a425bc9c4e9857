"""With `guard.redact` no redacted value is in the guard's tables, log lines, error texts or the quarantine's words.

Postgres' own refusals have them in their first sentence, in DETAIL and in CONTEXT.
"""

from collections.abc import Callable

import pytest
import structlog
from structlog.testing import LogCapture

from app.config.on_skip import OnSkip
from app.errors import BadMessage, SurelaneError, TargetMismatch, Unreachable
from tests import messages as m
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
SECRET = "ann@example.org"
d = Debezium()

#: everything that was ever written to the guard's tables
SEEN = """
create table seen (words text);
create function see() returns trigger language plpgsql as $$
begin insert into public.seen values (new::text); return new; end $$;
create trigger see before insert or update on surelane.suspect for each row execute function see();
create trigger see before insert or update on surelane.attempt for each row execute function see()
"""
RAISE = """
create function hit() returns trigger language plpgsql as $$
begin raise exception using errcode = '{code}', message = 'not this one: ' || new.v; end $$;
create table flat (id int primary key, v text);
create trigger hit before insert on flat for each row when (new.v <> 'x') execute function hit()
"""
KILL = RAISE.replace(
    "raise exception using errcode = '{code}', message = 'not this one: ' || new.v",
    "perform pg_terminate_backend(pg_backend_pid()); return new",
).replace("language plpgsql as", "language plpgsql security definer as")
DDL = {
    "22P02: the value itself": "create table flat (id int primary key, v int)",
    "22007: the value itself": "create table flat (id int primary key, v date)",
    "22001: CONTEXT": "create table flat (id int primary key, v varchar(3))",
    "23514: DETAIL": "create table flat (id int primary key, v text check (v = 'x'))",
    "23505: DETAIL": "create table flat (id int primary key, v text unique)",
    "23505: deferred": "create table flat (id int primary key, v text unique initially deferred)",
    "P0001: raised": RAISE.format(code="P0001"),
}
PATTERNS = (("public.flat.v",), ("*.v",))


def row(number: int, v: str | None) -> Message:
    return d.create(FLAT, {"id": number, "v": v})


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What guard and lane log."""
    capture = LogCapture()
    for module in ("app.poison.guard", "app.lane.lane"):
        monkeypatch.setattr(f"{module}.log", structlog.wrap_logger(None, processors=[capture]))
    return capture.entries  # pyright: ignore[reportReturnType]


@pytest.fixture
def lane(target: Target, bare_lane: MakeBareLane) -> Callable[..., BareLane]:
    """A lane with a target of this DDL."""

    def make(ddl: str, on_skip: OnSkip, *redact: str) -> BareLane:
        target.execute(ddl)
        target.execute(SEEN)
        return bare_lane(on_skip=on_skip, redact=redact)

    return make


def seen(target: Target) -> str:
    """All of it."""
    words = [words for (words,) in target.execute("select words from seen")]
    assert words
    return "\n".join(words)


def messages(secret: str) -> list[Message]:
    """Two with the value: the second one violates a unique constraint."""
    return [row(1, None), row(2, secret), row(3, secret), row(4, None)]


@pytest.mark.costly(5)
@pytest.mark.parametrize("redact", PATTERNS)
@pytest.mark.parametrize("case", DDL)
def test_a_lane_that_stops(
    case: str, redact: tuple[str, ...], target: Target, lane: Callable[..., BareLane], logged: list[object]
) -> None:
    made = lane(DDL[case], OnSkip.STOP, *redact)
    with pytest.raises(BadMessage) as stopped:
        made.apply(messages(SECRET))
    assert case[:5] in str(stopped.value), "the SQLSTATE is shown"
    assert logged
    for words in (str(stopped.value), repr(logged), seen(target)):
        assert SECRET not in words


@pytest.mark.costly(12)
@pytest.mark.parametrize("secret", [SECRET, "ann\nexample", "  ann   b ", "a\"n'n", "änn\tb", "DETAIL:  ann"])
@pytest.mark.parametrize("case", DDL)
def test_a_lane_that_goes_on(
    case: str, secret: str, target: Target, lane: Callable[..., BareLane], logged: list[object]
) -> None:
    made = lane(DDL[case], OnSkip.CONTINUE, "*.v")
    made.apply(messages(secret))
    kept = target.execute("select error, sqlstate from surelane.quarantine")
    assert {one.sqlstate for one in kept} == {case[:5]}
    parts = [part.strip() for part in secret.splitlines() if part.strip()]
    for words in (*(one.error for one in kept), repr(logged), seen(target)):
        assert secret.strip() not in words
        assert "; ".join(parts) not in words


def test_without_redaction_the_value_is_shown(target: Target, lane: Callable[..., BareLane]) -> None:
    """The test would notice."""
    made = lane(DDL["22P02: the value itself"], OnSkip.STOP)
    with pytest.raises(BadMessage, match=SECRET):
        made.apply(messages(SECRET))
    assert SECRET in seen(target)


def test_another_tables_error_is_shown(target: Target, lane: Callable[..., BareLane]) -> None:
    made = lane(DDL["22P02: the value itself"], OnSkip.STOP, "public.other.v")
    with pytest.raises(BadMessage, match=SECRET):
        made.apply(messages(SECRET))
    assert SECRET not in seen(target), "the guard's tables do not record which table an error is about"


NOT_ITS_FAULT: dict[str, tuple[str, type[SurelaneError]]] = {
    "stop": (RAISE.format(code="ZZ001"), TargetMismatch),
    "retry": (RAISE.format(code="53100"), Unreachable),
    "lost": (KILL, Unreachable),
}


@pytest.mark.parametrize("case", NOT_ITS_FAULT)
def test_failures_that_are_no_messages_fault(
    case: str, target: Target, lane: Callable[..., BareLane], logged: list[object]
) -> None:
    ddl, kind = NOT_ITS_FAULT[case]
    target.execute("create table other (v text primary key)")
    made = lane(ddl, OnSkip.CONTINUE, "*.v")
    with pytest.raises(kind) as stopped:
        made.apply(messages(SECRET))
    if case == "lost":
        made.reconnect()
    for words in (str(stopped.value), repr(logged), seen(target)):
        assert SECRET not in words
