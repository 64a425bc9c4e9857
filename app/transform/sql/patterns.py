"""LIKE, and those of Java's regular expressions that mean the same in Python after a small rewrite."""

import re

#: Java's line terminators
_ENDS = r"\n\r\x85\u2028\u2029"
_ANY, _END = f"[^{_ENDS}]", r"(?:\Z|(?=(?:\r\n|[\r\x85\u2028\u2029])\Z)|(?<!\r)(?=\n\Z))"
_CLASSES = "dDwWsS"
_CONTROLS = "tnr"


class UnknownPattern(Exception):
    """A pattern is not known to mean the same in Python."""


def like(pattern: str, escape: str) -> re.Pattern[str]:
    """A pattern for `fullmatch`."""
    made, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("_", "%", escape):
                raise UnknownPattern(f"{escape!r} has to stand before _, % or itself")
            made += re.escape(pattern[at])
        else:
            made += "." if character == "_" else ".*" if character == "%" else re.escape(character)
        at += 1
    return re.compile(made, re.DOTALL)


def regex(pattern: str) -> re.Pattern[str]:
    """A pattern for `search` and `sub`."""
    made, at = "", 0
    while at < len(pattern):
        part, at = _class(pattern, at) if pattern[at] == "[" else _part(pattern, at)
        made += part
    try:
        return re.compile(made, re.ASCII)
    except re.error as error:
        raise UnknownPattern(str(error)) from error


def _part(pattern: str, at: int) -> tuple[str, int]:
    """The part at `at` in Python's syntax, and where the next one begins."""
    character = pattern[at]
    if character == "\\":
        return _escaped(pattern, at)
    if character == "(" and pattern[at + 1 : at + 2] == "?":
        if pattern[at + 2 : at + 3] != ":":
            raise UnknownPattern("(? is known as (?: only")
        return "(?:", at + 3
    if character in "*+?}" and pattern[at + 1 : at + 2] == "+":
        raise UnknownPattern("a + behind a quantifier is not known here")
    if character == "{":
        found = re.compile(r"\{[0-9]+(,[0-9]*)?\}").match(pattern, at)
        if found is None:
            raise UnknownPattern("a { that is no quantifier needs a \\ before it")
        if pattern[found.end() : found.end() + 1] == "+":
            raise UnknownPattern("a + behind a quantifier is not known here")
        return found[0], found.end()
    return {".": _ANY, "$": _END, "^": r"\A"}.get(character, character), at + 1


def _escaped(pattern: str, at: int) -> tuple[str, int]:
    character = pattern[at + 1 : at + 2]
    is_sign = character.isascii() and not character.isalnum() and character.isprintable()
    if not character or not (is_sign or character in _CLASSES or character in _CONTROLS):
        raise UnknownPattern(f"\\{character} is not known here")
    return "\\" + character, at + 2


def _class(pattern: str, at: int) -> tuple[str, int]:
    """`[...]`, without unions and intersections."""
    made, at = "[", at + 1
    if pattern[at : at + 1] == "^":
        made, at = "[^", at + 1
    first = at
    while (character := pattern[at : at + 1]) != "]":
        if not character or character in "[&" or (character == "^" and at == first):
            raise UnknownPattern("[...] is known without [, & and ^ in it, and with an end")
        if character == "\\":
            part, at = _escaped(pattern, at)
        else:
            part, at = character if character == "-" else re.escape(character), at + 1
        made += part
    if at == first:
        raise UnknownPattern("an empty [...] is not known here")
    return made + "]", at + 1
