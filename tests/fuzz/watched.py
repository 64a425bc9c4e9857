"""Compiled decoding that notes which way it went at each of its branches.

`app.decode.scan_kernel` is compiled once more, with every condition of an `if`, a loop, an `and` and an `or` counted:
what was true and what was false. So mutations that reach something new are known, and mutated further.
"""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import binding

from app.cache import cache_dir
from app.decode import scan_kernel as scan
from app.decode.scan_loader import Scanner
from app.machine_code import MachineCode
from tests.fuzz.mutations import Pair

#: counters that the code may have
MOST_MARKS = 1 << 10
#: as the compiled code calls them
_SYMBOL = "surelane_fuzz_marks"
_PREAMBLE = f'''

@_instruction
def _mark(_: Any, which: Any) -> Any:
    """Count it."""

    def made(_: Any, builder: Any, __: Any, given: Any) -> Any:
        kind, name = ir.IntType(8), "{_SYMBOL}"
        counters = ir.ArrayType(kind, {MOST_MARKS})
        marks = builder.module.globals.get(name) or ir.GlobalVariable(builder.module, counters, name)
        place = builder.gep(builder.bitcast(marks, kind.as_pointer()), [given[0]])
        builder.store(builder.add(builder.load(place), ir.Constant(kind, 1)), place)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64), made


@_part
def _seen(which, value):
    if value:
        _mark(which)
    else:
        _mark(which + 1)
    return value

'''


class _Marking(ast.NodeTransformer):
    """Conditions become `_seen(number, condition)`."""

    def __init__(self) -> None:
        self.count = 0

    def _seen(self, condition: ast.expr) -> ast.expr:
        if isinstance(condition, ast.Constant | ast.BoolOp):  # of the latter each part is
            return condition
        self.count += 2
        return ast.Call(ast.Name("_seen", ast.Load()), [ast.Constant(self.count - 2), condition], [])

    def _of(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self._seen(node.test)
        return node

    visit_If = visit_While = visit_IfExp = _of  # noqa: N815  # as `ast` calls them

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        node.values = [self._seen(value) for value in node.values]
        return node


class Watched:
    """The compiled code, and what it has reached so far."""

    def __init__(self) -> None:
        self._marks = np.zeros(MOST_MARKS, np.uint8)
        binding.add_symbol(_SYMBOL, self._marks.ctypes.data)
        module, self.ways = _module()
        compiled = module.compiled()
        self._scanner = Scanner(MachineCode(compiled.address, {"more": scan.MORE, "origin": scan.ORIGIN}, compiled))
        #: of each way the magnitudes of the numbers of times that it was gone, a bit each
        self._reached = np.zeros(MOST_MARKS, np.uint8)

    @property
    def reached(self) -> int:
        """Ways that were gone at all."""
        return int(np.count_nonzero(self._reached))

    def is_new(self, pair: Pair) -> bool:
        """Whether it reaches what nothing before it has, or that oftener by a magnitude."""
        self._marks[:] = 0
        self._scanner.scan([pair[1]], [pair[0]])
        magnitudes = _MAGNITUDES[self._marks]
        is_new = bool((magnitudes & ~self._reached).any())
        self._reached |= magnitudes
        return is_new

    def fewest(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Of these the shortest that go every way that these go; what was reached is that, then."""
        self._reached[:] = 0
        chosen: list[Pair] = []
        for pair in sorted(pairs, key=lambda pair: len(pair[0] or b"") + len(pair[1] or b"")):
            before = self.reached
            self.is_new(pair)
            chosen += [pair] if self.reached > before else []
        return chosen


def _magnitude(times: int) -> int:
    limits = (0, 1, 2, 3, 7, 15, 31, 127)
    return 1 << sum(times > limit for limit in limits) - 1 if times else 0


_MAGNITUDES = np.array([_magnitude(times) for times in range(256)], np.uint8)


def _module() -> tuple[ModuleType, int]:
    """`app.decode.scan_kernel` with marks, and how many ways it has. The compiler needs a file of it."""
    marking = _Marking()
    tree = ast.parse(Path(scan.__file__).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not any(_named(one, "_instruction") for one in node.decorator_list):
            marking.visit(node)
    first = next(at for at, node in enumerate(tree.body) if isinstance(node, ast.FunctionDef) and node.name == "_head")
    tree.body[first:first] = ast.parse(_PREAMBLE).body
    assert marking.count <= MOST_MARKS
    text = ast.unparse(ast.fix_missing_locations(tree))
    path = cache_dir() / "fuzz" / f"watched_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, marking.count


def _named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
