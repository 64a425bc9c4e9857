"""Reads a savepoint for a process that forks: clients of file systems start threads, which a fork does not have."""

import pickle
import subprocess
import sys

from app.errors import SurelaneError
from app.savepoint.folder import SavepointFolder
from app.savepoint.place import is_remote
from app.savepoint.savepoint import Savepoint


def read_apart(directory: str, name: str) -> Savepoint:
    """As `SavepointFolder.get`, in a process of its own where this one would get threads."""
    if not is_remote(directory):
        return SavepointFolder(directory).get(name)
    command = [sys.executable, "-m", __name__, directory, name]
    found = pickle.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if isinstance(found, SurelaneError):
        raise found
    return found


def _main(directory: str, name: str) -> None:
    try:
        found = SavepointFolder(directory).get(name)
    except SurelaneError as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
