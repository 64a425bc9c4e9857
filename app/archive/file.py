"""One file of the archive: written, made durable, read and verified."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from app.archive.io_errors import broken
from app.archive.line_format import (
    EndLine,
    HeadLine,
    read_end,
    read_head,
    read_message,
    write_end,
    write_head,
    write_message,
)
from app.model.message import RawMessage
from app.private import opened

#: bytes of lines that are compressed at once: each is a frame of its own, and a file of zstd is as many as it likes
BLOCK_BYTES = 1 << 20
#: bytes that are decompressed at once
_READ_BYTES = 1 << 18


class Block(NamedTuple):
    """Lines of messages as they are in a file: a frame of zstd."""

    frame: bytes
    #: bytes of the lines
    size: int
    messages: int


def blocks(messages: Iterable[RawMessage], level: int) -> Iterator[Block]:
    """These messages, in blocks of about BLOCK_BYTES."""
    codec = pa.Codec("zstd", compression_level=level)
    lines: list[bytes] = []
    size = 0
    for message in messages:
        lines.append(write_message(message))
        size += len(lines[-1])
        if size >= BLOCK_BYTES:
            yield Block(codec.compress(b"".join(lines), asbytes=True), size, len(lines))
            lines, size = [], 0
    if lines:
        yield Block(codec.compress(b"".join(lines), asbytes=True), size, len(lines))


class FileWriter:
    """Writes one file; it is not whole before `end`."""

    def __init__(self, path: Path, head: HeadLine, level: int) -> None:
        self.path = path
        self._codec = pa.Codec("zstd", compression_level=level)
        self._sum = hashlib.sha256()
        self._block: list[bytes] = []
        self._size = 0
        self._messages = 0
        self._file = opened(path, "wb")
        try:
            self._line(write_head(head))
            self._flush()  # a frame of its own: who asks what is in the file reads no more than that
        except BaseException:
            self._file.close()
            raise

    def write(self, block: Block) -> None:
        """Append it as it is."""
        self._flush()
        self._sum.update(self._codec.decompress(block.frame, block.size))
        self._file.write(block.frame)
        self._messages += block.messages

    def write_line(self, line: bytes) -> None:
        """Append a message that is a line already."""
        self._line(line)
        self._messages += 1

    def end(self) -> None:
        """The last line, and everything on disk: fsync of the file."""
        self._flush()
        last = write_end(EndLine(self._messages, self._sum.hexdigest()))
        self._file.write(self._codec.compress(last, asbytes=True))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        """Give up, or nothing after `end`."""
        with suppress(OSError):  # what was buffered does not fit: it is not wanted any more
            self._file.close()

    def _line(self, line: bytes) -> None:
        self._block.append(line)
        self._size += len(line)
        if self._size >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._block:
            block = b"".join(self._block)
            self._block, self._size = [], 0
            self._sum.update(block)
            self._file.write(self._codec.compress(block, asbytes=True))


def sync_folder(folder: Path) -> None:
    """A rename, or a new name, on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def head_of(path: Path) -> HeadLine:
    """What is in the file. Raises Diverged when that cannot be read, FileNotFoundError when it is gone."""
    for line in _lines(path):
        try:
            return read_head(line)
        except ValueError as error:
            raise broken(path, f"its first line is none of an archive: {error}") from error
    raise broken(path, "it is empty")


def message_lines(path: Path) -> Iterator[bytes]:
    """Its messages as they stand there, for a file that was verified."""
    lines = _lines(path)
    next(lines)
    held = next(lines)
    for line in lines:
        yield held
        held = line


def messages(path: Path) -> Iterator[RawMessage]:
    """Its messages, for a file that was verified."""
    return map(read_message, message_lines(path))


def verify(path: Path) -> EndLine:
    """Read all of it; raises Diverged when it is not what was written."""
    found, count, held = hashlib.sha256(), -1, b""
    for line in _lines(path):
        if held:
            found.update(held)
            count += 1
        held = line
    try:
        end = read_end(held)
    except ValueError as error:
        raise broken(path, "its end is missing") from error
    if end.sha256 != found.hexdigest() or end.messages != count:
        raise broken(path, f"{count} messages with another checksum than the {end.messages} that were written")
    head_of(path)
    return end


def _lines(path: Path) -> Iterator[bytes]:
    """With their newlines."""
    with path.open("rb") as file:
        try:
            with pa.CompressedInputStream(file, "zstd") as stream:
                rest = b""
                while chunk := stream.read(_READ_BYTES):
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line + b"\n"
        except OSError as error:
            if error.errno:
                raise
            raise broken(path, str(error)) from error
    if rest:
        raise broken(path, "its last line is cut off")
