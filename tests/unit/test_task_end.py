"""A task ends with PySpark's daemon, also where the daemon was killed before the task began."""

import subprocess
import sys

#: the daemon forks a worker and is killed; the worker begins its task when it has another parent
_WORKER = """
import os, signal, socket, time
from app.stage import serving

listener = socket.create_server(("127.0.0.1", 0))
daemon = os.fork()
if not daemon:
    serving.become_daemon()
    if os.fork():
        signal.pause()
    daemon = os.getppid()
    print("ready", flush=True)
    while os.getppid() == daemon:
        time.sleep(0.01)
    serving.Task(0, listener.getsockname(), b"key", None)([])
    print("served", flush=True)
    os._exit(0)
input()
os.kill(daemon, signal.SIGKILL)
os.waitpid(daemon, 0)
"""


def test_a_daemon_that_ended_before() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    out, _ = process.communicate("\n", timeout=30)  # until the worker has ended, too: it has the pipe
    assert (out, process.returncode) == ("", 0)
