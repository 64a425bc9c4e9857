"""Logs: one JSON object a line, from every logger, and no password in it."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("orders", pretty=False)
    structlog.get_logger().info("epoch done", epoch=3)
    logging.getLogger("some.library").warning("reported %s", "this")
    ours, theirs = lines(capsys)
    assert list(ours)[:4] == ["timestamp", "level", "event", "lane"]
    assert (ours["event"], ours["epoch"], ours["lane"]) == ("epoch done", 3, "orders")
    assert (theirs["event"], theirs["level"], theirs["lane"]) == ("reported this", "warning", "orders")


def test_py4j_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("orders", pretty=False)
    logging.getLogger("py4j.clientserver").warning("lost connection")
    assert lines(capsys) == []


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@host/db",
        "host=h password=hunter2 user=me",
        'required password="hunter2";',
        'required username="me" password="with a blank, \\"quotes\\" and hunter2";',
        "password='it is hunter2'",
        "sslpassword=hunter2",
        "db.rds.amazonaws.com:5432/?Action=connect&X-Amz-Signature=hunter2&x=1",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
    ],
)
def test_passwords_are_masked(capsys: pytest.CaptureFixture[str], text: str) -> None:
    logs.configure("orders", pretty=False)
    structlog.get_logger().error(text, why=text)
    try:
        raise ValueError(text)
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "hunter2" not in capsys.readouterr().err
