"""The OpenAPI document of `/api`, made of the screens."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from app.console.document_types import DOCUMENTS, OverviewDoc
from app.console.logins import COOKIE
from app.console.screen import PATH_PARAMETER, Screen
from app.console.screens import SCREENS

_PARAMETERS = {
    "lane": "name of the lane",
    "key": "generation.epoch",
    "id": "number",
    "snapshot": "name of the snapshot",
    "query": "name of the query",
}
_OVERVIEW = "lanes"
_COMPONENTS = "#/components/schemas/"
#: none is needed where the console has no login
_LOGINS = {
    "token": {"type": "http", "scheme": "bearer", "description": "for programs that read"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "of a person, by the login page"},
}


def open_api(version: str) -> dict[str, Any]:
    schemas, components = _schemas()
    paths: dict[str, Any] = {
        "/api/lanes": {
            "get": {
                "operationId": "lanes",
                "summary": "The state of each lane of this console.",
                "responses": _responses(
                    schemas[_OVERVIEW], {"lanes": "each lane", "broken": "configurations that cannot be read"}
                ),
            }
        }
    }
    for screen in SCREENS:
        path = f"/api/lanes/{{lane}}{screen.path}"
        paths[PATH_PARAMETER.sub(r"{\1}", path)] = {"get": _operation(screen, path, schemas[screen.name])}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Surelane's console",
            "version": version,
            "description": "What the console shows, read only. The documents are those of the command line's --json.",
        },
        "paths": paths,
        "components": {"securitySchemes": _LOGINS, "schemas": components},
        "security": [{}, {"token": []}, {"session": []}],
    }


def _schemas() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each document by its screen's name, and the ones that they refer to."""
    kinds: dict[str, Any] = {_OVERVIEW: OverviewDoc} | dict(DOCUMENTS)
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (name, "serialization", TypeAdapter(kind)) for name, kind in kinds.items()
    ]
    found, defined = TypeAdapter.json_schemas(inputs, ref_template=f"{_COMPONENTS}{{model}}")
    components: dict[str, Any] = defined["$defs"]
    return {
        name: components[schema["$ref"].removeprefix(_COMPONENTS)] if "$ref" in schema else schema
        for (name, _), schema in found.items()
    }, components


def _operation(screen: Screen, path: str, schema: dict[str, Any]) -> dict[str, Any]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS[name],
            "schema": {"type": "integer" if name == "id" else "string"},
        }
        for name in PATH_PARAMETER.findall(path)
    ]
    filters = [
        {"name": name, "in": "query", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in screen.filters.items()
    ]
    return {
        "operationId": screen.name,
        "summary": screen.gives,
        "parameters": [*in_path, *filters],
        "responses": _responses(schema, screen.keys),
    }


def _responses(schema: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    described = {name: {**kind, "description": keys[name]} for name, kind in schema["properties"].items()}
    document = {"type": "object", "properties": described, "required": schema["required"]}
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "hint": {"type": ["string", "null"]}},
        "required": ["error"],
    }
    answers = {
        "400": "a filter cannot be read",
        "401": "a login is needed",
        "404": "there is no such thing",
        "409": "refused",
        "503": "a server does not answer",
    }
    return {
        "200": {
            "description": "the document",
            "content": {"application/json": {"schema": document}},
        },
        **{
            status: {"description": meaning, "content": {"application/json": {"schema": error}}}
            for status, meaning in answers.items()
        },
    }
