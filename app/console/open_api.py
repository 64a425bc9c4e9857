"""The OpenAPI document of `/api`, made of the screens."""

from typing import Any

from app.console.screen import PATH_PARAMETER, Screen
from app.console.screens import SCREENS

_PARAMETERS = {
    "lane": "name of the lane",
    "key": "generation.epoch",
    "id": "number",
    "snapshot": "name of the snapshot",
    "query": "name of the query",
}


def open_api(version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {
        "/api/lanes": {
            "get": {
                "operationId": "lanes",
                "summary": "The state of each lane of this console.",
                "responses": _responses({"lanes": "each lane", "broken": "configurations that cannot be read"}),
            }
        }
    }
    for screen in SCREENS:
        path = f"/api/lanes/{{lane}}{screen.path}"
        paths[PATH_PARAMETER.sub(r"{\1}", path)] = {"get": _operation(screen, path)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Surelane's console",
            "version": version,
            "description": "What the console shows, read only. The documents are those of the command line's --json.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(screen: Screen, path: str) -> dict[str, Any]:
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
        "responses": _responses(screen.keys),
    }


def _responses(keys: Any) -> dict[str, Any]:
    properties = {name: {"description": meaning} for name, meaning in keys.items()}
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
            "content": {"application/json": {"schema": {"type": "object", "properties": properties}}},
        },
        **{
            status: {"description": meaning, "content": {"application/json": {"schema": error}}}
            for status, meaning in answers.items()
        },
    }
