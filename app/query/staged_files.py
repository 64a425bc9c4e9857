"""Tasks write the rows of a query's epoch to files; the driver gets a receipt of each task."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame

from app.config.queries import FileFormat
from app.private import opened
from app.query.staged_results import StagedPart, StagingFault, written


@dataclass(frozen=True)
class FilePlace:
    """Where tasks write: sent with the job."""

    folder: str
    format: FileFormat


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Lines:
    """Each row has one column, its line. A zstd file may have any number of frames."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        del schema
        self._file, self._codec = file, pa.Codec("zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        lines = "".join(f"{line}\n" for line in batch.column(0).to_pylist())
        self._file.write(self._codec.compress(lines.encode(), asbytes=True))

    def close(self) -> None:
        """Every frame is whole."""


_WRITERS: dict[FileFormat, Callable[[IO[bytes], pa.Schema], _Writer]] = {
    FileFormat.PARQUET: _Parquet,
    FileFormat.JSONL_ZST: _Lines,
}


def staged_files(rows: DataFrame, place: FilePlace) -> list[StagedPart]:
    """Run the job. Raises what Spark raises; an error of the file system is in the receipt of its task."""
    return written(rows, partial(_filed, place))


def _filed(place: FilePlace, part: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the rows of one partition, and sync the file."""
    try:
        with opened(Path(place.folder) / f"{part:05d}-{attempt}.{place.format}", "xb") as file:
            first = next(batches)
            writer = _WRITERS[place.format](file, first.schema)
            writer.write(first)
            for batch in batches:
                writer.write(batch)
            writer.close()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StagingFault(str(error.errno or 0), str(error)) from error
