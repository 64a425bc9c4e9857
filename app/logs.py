"""Logs on stderr: one JSON object for each line, for machines; coloured lines on a terminal.

Loggers of the standard library (SQLAlchemy, Alembic, py4j) use the same processors. Passwords are masked
right before rendering, so that no library's message leaks one.
"""

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import structlog
from structlog.typing import Processor

#: loggers that are too verbose at INFO, and their level
QUIET = {
    "py4j": logging.CRITICAL,  # logs each orderly stop, and the errors of callbacks, which the lane logs itself
    "pyspark": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "alembic": logging.WARNING,
}
_SECRET = re.compile(
    r"""(://[^\s:/@]*:)[^\s@/]+(@)"""
    r"""|(\b(?:ssl)?(?:password|X-Amz-Signature|X-Amz-Security-Token)\s*=\s*)"""
    r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s"';&]+)"""
    r"""|(-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----)(?:(?!-----END).)*""",
    re.IGNORECASE | re.DOTALL,
)


def configure(lane: str, pretty: bool | None = None, file: Path | None = None) -> None:
    """Send all logs of this process to stderr. `pretty`: coloured lines; None: if stderr is a terminal. `file`: gets
    each as a line of JSON, too; one that is moved away is begun anew. Raises OSError where it cannot be written."""
    people = sys.stderr.isatty() if pretty is None else pretty
    shared = _processors(lane)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(people=people))
    )
    handlers: list[logging.Handler] = [handler]
    if file is not None:
        handlers.append(WatchedFileHandler(file, encoding="utf-8"))
        handlers[-1].setFormatter(
            structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(people=False))
        )
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)


@contextmanager
def warnings_only() -> Iterator[None]:
    """For a command that runs lanes in its own process: warnings and errors go to stderr, other levels are dropped."""
    people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_passwords,
            structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()


def _processors(lane: str) -> list[Processor]:
    def name_lane(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("lane", lane)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_lane,
    ]


def _rendering(*, people: bool) -> list[Processor]:
    common: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if people:
        return [
            *common,
            mask_passwords,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    in_order = _ordered("timestamp", "level", "event", "lane")
    return [
        *common,
        structlog.processors.format_exc_info,
        mask_passwords,
        in_order,
        structlog.processors.JSONRenderer(),
    ]


def _ordered(*first: str) -> Processor:
    def order(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {key: event[key] for key in first if key in event} | dict(event)

    return order


def mask_passwords(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask `://user:password@` and `password=...` in every text of the event."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = masked(value)
    return event


def masked(text: str) -> str:
    """`text` with each password, token signature or private key that is recognised replaced by `***`."""
    return _SECRET.sub(lambda found: f"{found[1] or found[3] or found[4]}***{found[2] or ''}", text)
