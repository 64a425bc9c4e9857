"""Writes, syncs, reads and verifies one file of the archive."""

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

#: bytes of lines that are compressed to one frame; a zstd file may have any number of frames
BLOCK_BYTES = 1 << 20
#: decompressed bytes of one read
_READ_BYTES = 1 << 18


class Block(NamedTuple):
    """Lines of messages as one zstd frame."""

    frame: bytes
    #: bytes of the lines, uncompressed
    size: int
    messages: int


def blocks(messages: Iterable[RawMessage], level: int) -> Iterator[Block]:
    """Compress these messages to blocks of about BLOCK_BYTES of lines. `level`: zstd's."""
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
    """Writes one file, which is whole after `end`."""

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
            self._flush()  # a frame of its own: to read the head, no more has to be decompressed
        except BaseException:
            self._file.close()
            raise

    def write(self, block: Block) -> None:
        """Append a block without compressing it again."""
        self._flush()
        self._sum.update(self._codec.decompress(block.frame, block.size))
        self._file.write(block.frame)
        self._messages += block.messages

    def write_line(self, line: bytes) -> None:
        """Append the line of one message."""
        self._line(line)
        self._messages += 1

    def end(self) -> None:
        """Write the last line, fsync and close the file."""
        self._flush()
        last = write_end(EndLine(self._messages, self._sum.hexdigest()))
        self._file.write(self._codec.compress(last, asbytes=True))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        """Close an unfinished file; no effect after `end`."""
        with suppress(OSError):  # buffered bytes may not fit on the disk: they are discarded
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
    """fsync the folder: make a rename or a new name durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def head_of(path: Path) -> HeadLine:
    """Read the head line. Raises Diverged if it cannot be read, FileNotFoundError if the file is gone."""
    for line in _lines(path):
        try:
            return read_head(line)
        except ValueError as error:
            raise broken(path, f"its first line is none of an archive: {error}") from error
    raise broken(path, "it is empty")


def message_lines(path: Path) -> Iterator[bytes]:
    """The message lines of a verified file."""
    lines = _lines(path)
    next(lines)
    held = next(lines)
    for line in lines:
        yield held
        held = line


def messages(path: Path) -> Iterator[RawMessage]:
    """The messages of a verified file."""
    return map(read_message, message_lines(path))


def verify(path: Path) -> EndLine:
    """Read the whole file; raises Diverged if it is not what was written."""
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
    """The decompressed lines, with their newlines; raises Diverged for broken zstd or a line that is cut off."""
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
