"""The link: lines survive whatever pieces they arrive in, and no thread stays behind when the other side goes."""

import itertools
import socket
import subprocess
import sys
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.model.activity import Activity
from app.supervisor.link import AtServer, LineBuffer, Link
from tests.waiting import eventually

TOP = Path(__file__).resolve().parents[2]
WORDS = st.lists(st.lists(st.text("abc019", min_size=1), min_size=1))


@given(lines=WORDS, cuts=st.lists(st.integers(0, 200)), unfinished=st.text("abc"))
def test_lines_survive_being_cut_anywhere(lines: list[list[str]], cuts: list[int], unfinished: str) -> None:
    sent = "".join(f"{' '.join(words)}\n" for words in lines) + unfinished
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    reader = LineBuffer()
    pieces = [sent[start:end].encode() for start, end in itertools.pairwise(places)]
    assert [words for piece in pieces for words in reader.of(piece)] == lines


def test_what_a_worker_says() -> None:
    ours, theirs = socket.socketpair()
    link = Link(theirs.detach())
    link.begin(500, "orders 1")
    link.doing(Activity.SERVER)
    link.end()
    try:
        with link:
            raise KeyError("x")
    except KeyError:
        pass
    thread = str(threading.get_native_id())
    assert list(LineBuffer().of(ours.recv(1000))) == [
        ["begin", thread, "500", "orders%201"],
        ["doing", thread, "server"],
        ["end", thread],
        ["failed", "KeyError"],
    ]
    ours.close()
    link.begin(1, "orders")  # harmless


def test_who_waits_for_a_database() -> None:
    ours, theirs = socket.socketpair()
    link, key = Link(theirs.detach()), threading.get_native_id()
    assert link.at_server(0) == []
    with link.at_database():  # before any span
        assert link.at_server(0) == []
    link.begin(1, "orders")
    link.doing(Activity.ARRANGE)
    assert link.at_server(0) == []
    with link.at_database(), link.at_database():
        assert link.at_server(0) == [AtServer(key, "orders")]
        assert link.at_server(60) == []
        link.busy(key, waits=False)
        assert not link.waited()
        link.busy(key, waits=True)
        assert link.waited()
    assert link.at_server(0) == []
    link.busy(key, waits=False)
    assert link.waited()
    link.begin(1, "orders")
    assert not link.waited()
    link.end()
    link.busy(key, waits=True)  # too late
    assert not link.waited()
    sent = [words[0] + (f" {words[2]}" if words[0] == "doing" else "") for words in LineBuffer().of(ours.recv(1000))]
    busy = ["busy", "busy"]
    assert sent == ["begin", "doing arrange", "doing server", *busy, "doing arrange", "busy", "begin", "end"]


def test_a_worker_is_asked_to_stop_once_and_with_the_reason() -> None:
    ours, theirs = socket.socketpair()
    reasons: list[str] = []
    Link(theirs.detach()).on_stop(reasons.append)
    ours.sendall(b"st")
    ours.sendall(b"op SIGTERM\nstop SIGINT\n")
    ours.close()
    eventually(lambda: reasons, 10, "the reason")
    eventually(lambda: not any(thread.name == "link" for thread in threading.enumerate()), 10, "the thread's end")
    assert reasons == ["SIGTERM"]


def test_a_worker_whose_supervisor_is_gone_stops() -> None:
    ours, theirs = socket.socketpair()
    reasons: list[str] = []
    Link(theirs.detach()).on_stop(reasons.append)
    ours.close()
    eventually(lambda: reasons, 10, "the reason")
    assert "gone" in reasons[0]


def test_a_lane_without_a_supervisor_says_nothing() -> None:
    with Link() as link:
        link.begin(1, "orders")
        link.end()
        link.on_stop(lambda _: None)


def test_the_supervisor_carries_no_spark() -> None:
    program = "import sys, app.cli.run; print({name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True)
    assert "psutil" in done.stdout
    assert not [name for name in ("pyspark", "pyarrow", "numpy", "confluent_kafka") if f"'{name}'" in done.stdout]
