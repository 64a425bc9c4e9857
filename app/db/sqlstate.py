"""Verdicts on errors of Postgres by SQLSTATE (PostgreSQL manual, appendix A)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg2
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from app.errors import Contended, ServerExhausted, SurelaneError, TargetMismatch, Unreachable, Verdict

Result = TypeVar("Result")

#: COMMIT or ROLLBACK PREPARED of a gid that the server does not have
UNDEFINED_OBJECT = "42704"
#: the environment failed; the same transaction may succeed later
LOCK_NOT_AVAILABLE = "55P03"
RETRY_CLASSES = ("08", "40", "53", "57P", "57014", "55P03", "55006", "25P02", "25P03", "25P04")
#: of those: caused by other sessions, with locks or on purpose; retried without limit
CONTENDED_CLASSES = ("40", "55P03", "55006", "57014")
#: of those: a configured limit, which each retry would meet again
LIMIT_CLASSES = ("53400",)
#: of those: possibly caused by the message or the configuration; retried with a limit
EXHAUSTED_CLASSES = ("53200",)
#: the connection is gone or is being ended
LOSS_CLASSES = ("08", "57P", "25P03", "25P04")
#: of those: a timeout that Surelane did not set; no evidence against a message
TIMEOUT_CLASSES = ("57P05", "25P03", "25P04")
#: the data itself is refused: by its type, a constraint, a limit (a value too large for an index), a trigger
POISON_CLASSES = ("21", "22", "23", "44", "54", "P0")
#: of those: may succeed when the changes are sent in another order
ORDER_CLASSES = ("21", "23", "44", "P0")

#: of those: the primary message may contain a value
_VALUE_CLASSES = ("22", "P0")
#: source function in Postgres of errors that PL/pgSQL raises with RAISE
_RAISE = "exec_stmt_raise"

#: of a message: its end may be the failed statement, with all rows of an epoch
MESSAGE_CHARACTERS = 2000

#: hints for the most common refusals
HINTS = {
    "42501": "grant the missing privilege to the lane's role (with row-level security: ALTER ROLE ... BYPASSRLS); "
    "`surelane doctor` lists what it needs",
    "42P01": "create the missing table, or run `surelane migrate` if it is one of Surelane's own",
    "3F000": "create the missing schema, or run `surelane migrate` if it is Surelane's own",
    "42703": "add the missing column to the target",
    "55000": "set max_prepared_transactions above 0 and restart the server, or use `commit: ledger`",
    "53400": "raise the limit for the lane's role, as a superuser: ALTER ROLE <role> SET temp_file_limit = '...'; or "
    "write a smaller epoch.max_messages",
    "53200": "give the server more memory, or what its message names (max_locks_per_transaction, "
    "max_prepared_transactions); or write a smaller epoch.max_messages",
    "25006": "the target is read-only (a standby?): point target.url at the primary",
}

_CONTENDED_HINT = (
    "other sessions hold locks that the lane waits for, or cancel what it does; nothing counts against a message. Who "
    "is in the way: ops/runbooks/lag.md, and the lane's log (`waits for a lock`)"
)
_UNKNOWN_HINT = (
    "type the same once more when the server answers: what was done already stays as it is, or the answer says so; "
    "`surelane status` shows the lane"
)
_UNREACHABLE_HINT = "is the server up, its URL right, and this machine let in? `surelane doctor` looks at all of it"


class CommitLost(OperationalError):
    """The connection was lost at COMMIT: the server may have done it. `app.db.engine` raises it."""


def driver_error(error: BaseException) -> BaseException | None:
    """The psycopg2 error inside a SQLAlchemy error."""
    return error.orig if isinstance(error, DBAPIError) else error


def sqlstate(error: BaseException) -> str | None:
    """SQLSTATE of a psycopg2 or SQLAlchemy error; None when the connection was lost before one arrived."""
    return getattr(driver_error(error), "pgcode", None)


def verdict_of(error: BaseException) -> Verdict:
    """Retry, stop or poison. An error without SQLSTATE is a lost connection."""
    return verdict_of_code(sqlstate(error))


def verdict_of_code(code: str | None) -> Verdict:
    """As `verdict_of`, by the SQLSTATE."""
    if code is not None and code.startswith(LIMIT_CLASSES):
        return Verdict.STOP
    if code is None or code.startswith(RETRY_CLASSES):
        return Verdict.RETRY
    return Verdict.POISON if code.startswith(POISON_CLASSES) else Verdict.STOP


def depends_on_order(error: BaseException) -> bool:
    """Whether the same changes may succeed in another order."""
    return (sqlstate(error) or "").startswith(ORDER_CLASSES)


def unless_refused(send: Callable[[], Result]) -> Result | Exception:
    """Result of `send`, or the target's error when a message may be its cause. Raises all other errors."""
    try:
        return send()
    except (DBAPIError, psycopg2.Error) as error:
        if verdict_of(error) is not Verdict.POISON:
            raise
        return error


def _untranslated(error: BaseException | None) -> BaseException | None:
    """The error of the driver that this one is, or that is among its causes; None: it has none."""
    while error is not None and not isinstance(error, DBAPIError | psycopg2.Error):
        error = error.__cause__
    return error


def refusal_code(error: BaseException) -> str | None:
    """SQLSTATE of an error of the target, as it is or translated, whose cause may be a message; None: it is another."""
    origin = _untranslated(error)
    return sqlstate(origin) if origin is not None and verdict_of(origin) is Verdict.POISON else None


def is_connection_loss(error: BaseException) -> bool:
    """Whether the error, or one of its causes, is a connection loss."""
    origin = _untranslated(error)
    if origin is None:
        return False
    code = sqlstate(origin)
    return code is None or code.startswith(LOSS_CLASSES)


def may_blame(error: BaseException) -> bool:
    """Whether it is a connection loss that a message may have caused; a timeout is not."""
    origin = _untranslated(error)
    if origin is None:
        return False
    return is_connection_loss(origin) and not (sqlstate(origin) or "").startswith(TIMEOUT_CLASSES)


def check_alive(connection: Connection, doing: str) -> None:
    """Raises Unreachable when the connection was lost, also in its last use. No transaction is open on it."""
    check_kept(connection, doing)
    with translated(doing), connection.begin():
        connection.execute(text("select"))


def check_kept(connection: Connection, doing: str) -> None:
    """Raises Unreachable when the connection is known to be lost: SQLAlchemy would open it anew without a word, and the
    locks of its session were gone."""
    if connection.invalidated:
        raise Unreachable(f"{doing}: the connection to the target was lost", hint=_UNREACHABLE_HINT)


def describe(error: BaseException, *, discreet: bool = False) -> str:
    """The server's message in one line, with its SQLSTATE. `discreet`: without text that may repeat values of a row."""
    original, code = driver_error(error), sqlstate(error)
    message = _first_words(original) if discreet else one_line(str(original))
    if len(message) > MESSAGE_CHARACTERS:
        message = f"{message[:MESSAGE_CHARACTERS]} ..."
    return message + (f" (SQLSTATE {code})" if code else "")


def _first_words(error: BaseException | None) -> str:
    """The part of the message without values: Postgres repeats rows after the primary message, malformed values also in
    it, and a trigger may raise any text."""
    if not isinstance(error, psycopg2.Error) or error.pgcode is None:
        return one_line(str(error)).partition(";")[0]
    if error.pgcode.startswith(_VALUE_CLASSES) or error.diag.source_function == _RAISE:
        return type(error).__name__
    return one_line(error.diag.message_primary or type(error).__name__)


def one_line(text: str) -> str:
    """The lines of a text, joined with `; `."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


@contextmanager
def translated(doing: str, *, discreet: bool = False) -> Iterator[None]:
    """Translate errors of Postgres to ServerExhausted, Contended, Unreachable or TargetMismatch.

    `doing`: context for the message; `discreet`: as for `describe`.
    """
    try:
        yield
    except CommitLost as error:
        lost = f"{doing}: the connection was lost at COMMIT, and it is not known whether that was done"
        raise Unreachable(f"{lost}: {describe(error, discreet=discreet)}", hint=_UNKNOWN_HINT) from error
    except (DBAPIError, psycopg2.Error) as error:
        raise meaning(sqlstate(error), f"{doing}: {describe(error, discreet=discreet)}") from error


def meaning(code: str | None, message: str) -> SurelaneError:
    """The error for a SQLSTATE; None: the connection was lost before one arrived."""
    hint = HINTS.get(code or "")
    if (code or "").startswith(EXHAUSTED_CLASSES):
        return ServerExhausted(message, hint=hint)
    if (code or "").startswith(CONTENDED_CLASSES):
        return Contended(message, hint=_CONTENDED_HINT)
    if verdict_of_code(code) is Verdict.RETRY:
        return Unreachable(message, hint=_UNREACHABLE_HINT)
    return TargetMismatch(message, hint=hint)
