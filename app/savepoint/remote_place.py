"""Savepoints in a file system that PyArrow opens by a URI: S3, Google Cloud Storage, HDFS.

There need be no rename. The last file, which has the checksums of the others, is written last and removed first: a
folder without it is half written, or half removed, and its name is free. A name cannot be reserved: of two processes
that write one name within the same moment, the slower one may replace a file of the other's, which the checksums show.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from app import failpoint
from app.errors import ConfigInvalid
from app.savepoint.place import SEAL

_HADOOP = (
    "HDFS needs Java and Hadoop's native client: set JAVA_HOME and HADOOP_HOME (or ARROW_LIBHDFS_DIR), and CLASSPATH "
    "to what `hadoop classpath --glob` prints; the name node has to answer, and this user may write there"
)
_BUCKET = (
    "the bucket has to exist, its server to answer, and the credentials of this environment ({names}) to allow "
    "listing, reading, writing and deleting there"
)
_HINTS = {
    "hdfs": _HADOOP,
    "s3": _BUCKET.format(names="AWS_ACCESS_KEY_ID, a profile, or the machine's role"),
    "gs": _BUCKET.format(names="GOOGLE_APPLICATION_CREDENTIALS, or the machine's account"),
}


class RemotePlace:
    """A `Place`. Who may read its folders is for the file system to say."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._opened: tuple[FileSystem, str] | None = None

    def folder(self, name: str) -> str:
        parts = urlsplit(self._uri)
        return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()

    def names(self) -> list[str]:
        with self._client() as (files, root):
            try:
                found = files.get_file_info(FileSelector(root))
            except FileNotFoundError:
                return []
        return [one.base_name for one in found if one.type is FileType.Directory]

    def has(self, name: str) -> bool:
        if name not in self.names():  # which fails for a bucket that is not there
            return False
        with self._client() as (files, root):
            return files.get_file_info(f"{root}/{name}/{SEAL}").type is FileType.File

    def read(self, name: str, file: str) -> bytes:
        with self._client() as (files, root):
            try:
                with files.open_input_stream(f"{root}/{name}/{file}", compression=None) as stream:
                    return stream.read()
            except FileNotFoundError:
                pass
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)

    def write(self, name: str, files: Mapping[str, str]) -> None:
        """It exists from its last file on."""
        for one, content in files.items():
            if one == SEAL:
                failpoint.reach("savepoint-before-sums")
            if self.has(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            with self._client() as (client, root), client.open_output_stream(f"{root}/{name}/{one}") as stream:
                stream.write(content.encode())

    def remove(self, name: str) -> None:
        """It is gone without its last file."""
        with self._client() as (files, root):
            if files.get_file_info(f"{root}/{name}/{SEAL}").type is FileType.File:
                files.delete_file(f"{root}/{name}/{SEAL}")
            failpoint.reach("savepoint-disposed")
            files.delete_dir(f"{root}/{name}")

    @contextmanager
    def _client(self) -> Iterator[tuple[FileSystem, str]]:
        """The client, and the place's path for it. Its errors become ConfigInvalid, but FileNotFoundError."""
        try:
            if self._opened is None:
                # else the JVM in this process takes the signals that stop a lane
                os.environ.setdefault("LIBHDFS_OPTS", "-Xrs")
                files, path = FileSystem.from_uri(self._uri)
                self._opened = files, path.rstrip("/")
            yield self._opened
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigInvalid(
                f"savepoints.directory: {self._uri} cannot be used: {reason}", hint=_HINTS[urlsplit(self._uri).scheme]
            ) from None
