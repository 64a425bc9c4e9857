"""Machine code that numba makes of Python functions, kept in the project's cache; LLVM alone loads it.

It is made for any processor of this architecture. Loading it takes 40 ms and 50 MB; numba, which makes it, half a
second in which Python runs nothing else, and 100 MB.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.cache import cache_dir

#: operations on words, which a kernel may contain
WORDS = Path(__file__).with_name("machine_words.py")

#: a function as numba's `cfunc` gives it, and what has to be known of it where it is called
Compiled = tuple[Any, Mapping[str, int]]


@dataclass(frozen=True)
class MachineCode:
    """A function in this process."""

    address: int
    #: what has to be known of it
    about: Mapping[str, int]
    #: owns what is at the address
    owner: object


@dataclass(frozen=True)
class Kernel:
    """A function that is compiled once for each installation."""

    name: str
    #: files that have it: others are another function
    sources: tuple[Path, ...]
    #: compiles it, with numba
    compile: Callable[[], Compiled]
    #: constants of other files that it contains
    constants: str = ""

    def load(self) -> MachineCode:
        """The code that the cache has, or else compile it, and keep it there if that may be written."""
        path = self.file()
        kept = _read(path)
        if kept is None:
            kept = self._made()
            with suppress(OSError):
                _write(path, *kept)
        return _linked(*kept)

    def install(self, what: str) -> None:
        """Compile it unless the cache has it, whole, and load it. `what`: it, and how long that takes, for the person
        who waits."""
        if _read(self.file()) is None:
            print(f"surelane: compiling {what}", file=sys.stderr, flush=True)
        self.load()

    def file(self) -> Path:
        """Where the cache has the code: a name of its own for each source and compiler, and for each architecture."""
        made_by = f"{version('numba')} {version('llvmlite')} {platform.machine()} {self.constants}"
        parts = [*(source.read_bytes() for source in self.sources), made_by.encode()]
        name = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
        return cache_dir() / "compiled" / f"{self.name}-{name}.o"

    def _made(self) -> tuple[dict[str, Any], bytes]:
        """What has to be known of it, with its symbol, and an object file."""
        import numba  # takes half a second

        # what an image has compiled has to run wherever the image does
        config: Any = numba.config
        config.CPU_NAME, config.CPU_FEATURES = "generic", ""
        function, about = self.compile()
        made = function._library._get_compiled_object()  # numba has no public function for it
        return {"name": function.native_name, **about}, made


def _linked(about: dict[str, Any], made: bytes) -> MachineCode:
    """Link it into this process. What numba's wrapper would call for an exception is not there: no kernel raises."""
    from llvmlite import binding  # takes 40 ms

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(made))
    engine.finalize_object()
    symbol = about.pop("name")
    return MachineCode(engine.get_function_address(symbol), about, engine)


def _write(path: Path, about: dict[str, Any], made: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({**about, "sha256": hashlib.sha256(made).hexdigest()}).encode()
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_bytes(head + b"\n" + made)
    new.rename(path)


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """What `_write` wrote; None where it is missing, or not whole."""
    try:
        head, _, made = path.read_bytes().partition(b"\n")
        about = json.loads(head)
    except (OSError, ValueError):
        return None
    is_whole = isinstance(about, dict) and about.pop("sha256", None) == hashlib.sha256(made).hexdigest()
    return (about, made) if is_whole else None
