"""Answers of the console's API, held to its OpenAPI document: every key documented, every value of its type."""

import copy
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker


def faults(api: dict[str, Any], operation: str, answer: Any) -> list[str]:
    """What of an answer is not as `/api/openapi.json` says; keys that it does not name among them."""
    closed = copy.deepcopy(api)
    _close(closed)
    (found,) = (one["get"] for one in closed["paths"].values() if one["get"]["operationId"] == operation)
    schema = found["responses"]["200"]["content"]["application/json"]["schema"]
    checker = Draft202012Validator({**schema, "components": closed["components"]}, format_checker=FormatChecker())
    return [f"{operation}/{'/'.join(map(str, one.path))}: {one.message}" for one in checker.iter_errors(answer)]


def _close(part: Any) -> None:
    """No object has other keys than the documented ones."""
    if isinstance(part, dict):
        if "properties" in part:
            part["additionalProperties"] = False
        for value in part.values():
            _close(value)
    elif isinstance(part, list):
        for value in part:
            _close(value)
