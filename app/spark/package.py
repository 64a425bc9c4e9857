"""Ships this package to the executors of a cluster: they run the driver's code, whatever they have installed.

    driver     zip of app/*.py, with its bytecode ... SparkContext.addArchive
    executor   unpacked into FOLDER of its working directory before its first task; PYTHONPATH has it, so that PySpark's
               daemon (`app.stage.daemon`) finds it, too

Its dependencies are not shipped: the Python of the executors has them (docs/DEPLOY.md, "A Spark cluster").
"""

import marshal
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from app.spark.session_options import FOLDER

#: flags of bytecode with a hash of its source that is not checked (PEP 552)
_UNCHECKED = (1).to_bytes(4, "little")
_PACKAGE = Path(__file__).resolve().parents[1]


def ship(context: SparkContext) -> None:
    """Send the package to all executors, also to those that start later."""
    file = Path(SparkFiles.getRootDirectory(), f"{FOLDER}.zip")  # Spark deletes that folder at its end
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _contents(_PACKAGE):
            archive.writestr(name, content)
    context.addArchive(f"{file}#{FOLDER}")


def _contents(package: Path) -> Iterator[tuple[str, bytes]]:
    for source in sorted(package.rglob("*.py")):
        place = source.relative_to(package.parent)
        yield str(place), source.read_bytes()
        bytecode = f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        yield str(place.parent / "__pycache__" / bytecode), _bytecode(source)


def _bytecode(source: Path) -> bytes:
    """The bytecode file of a source; takes the cached code where there is some."""
    code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
    return MAGIC_NUMBER + _UNCHECKED + source_hash(source.read_bytes()) + marshal.dumps(code)
