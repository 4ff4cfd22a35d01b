"""The description of the API as a page needs it: sections of operations, each with its fields in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    required: bool
    says: str


@dataclass(frozen=True)
class Part:
    """What an operation takes, or answers: where it is, in words, and its fields."""

    title: str
    fields: list[Field]


@dataclass(frozen=True)
class OperationOfPage:
    ident: str
    method: str
    path: str
    summary: str
    says: str
    scope: str
    parts: list[Part]
    answers: list[tuple[str, str]]


@dataclass
class Section:
    title: str
    operations: list[OperationOfPage] = field(default_factory=list)


def sections(schema: Schema) -> list[Section]:
    """All operations by tag, in the order of the description."""
    found: dict[str, Section] = {}
    for path, methods in schema["paths"].items():
        for method, said in methods.items():
            section = found.setdefault(said["tags"][0], Section(said["tags"][0]))
            section.operations.append(_operation(schema, path, method, said))
    return list(found.values())


def _operation(schema: Schema, path: str, method: str, said: Schema) -> OperationOfPage:
    parts = []
    if said["parameters"]:
        parts.append(Part("Parameters", [_parameter(schema, one) for one in said["parameters"]]))
    if body := said.get("requestBody"):
        parts.append(_of_content("Body", schema, body["content"]))
    good = next(answer for status, answer in sorted(said["responses"].items()) if status.startswith("2"))
    if content := good.get("content"):
        parts.append(_of_content("Answer", schema, content))
    answers = [(status, answer["description"]) for status, answer in sorted(said["responses"].items())]
    ident = said["operationId"].replace(".", "-").replace("_", "-")
    return OperationOfPage(
        ident, method.upper(), path, said["summary"], said.get("description", ""), said["x-scope"], parts, answers
    )


def _parameter(schema: Schema, one: Schema) -> Field:
    return Field(one["name"], f"{one['in']}, {_kind(schema, one['schema'])}", one["required"], one.get("description", ""))


def _of_content(title: str, schema: Schema, content: Schema) -> Part:
    media, told = next(iter(content.items()))
    inner = _resolved(schema, told["schema"])
    if inner.get("type") == "array":
        title, inner = f"{title}, a list of", _resolved(schema, inner["items"])
    fields = [
        Field(name, _kind(schema, value), name in inner.get("required", ()) and title == "Body", _says(schema, value))
        for name, value in inner.get("properties", {}).items()
    ]
    return Part(f"{title} ({media})" if media != "application/json" else title, fields)


def _says(schema: Schema, value: Schema) -> str:
    said = str(value.get("description", ""))
    if "default" in value and value["default"] not in ("", None, []):
        said = f"{said}; " if said else ""
        said += f"{value['default']} without it"
    return said


def _resolved(schema: Schema, value: Schema) -> Schema:
    while ref := value.get("$ref"):
        value = schema["components"]["schemas"][ref.rsplit("/", 1)[-1]]
    return value


def _kind(schema: Schema, value: Schema) -> str:
    """A type in a word or two: "integer", "list of string", "one of cpu, sm_90"."""
    if ref := value.get("$ref"):
        return str(ref).rsplit("/", 1)[-1]
    if choices := value.get("enum"):
        return f"one of {', '.join(map(str, choices))}"
    if several := value.get("anyOf"):
        return " or ".join(_kind(schema, one) for one in several)
    if value.get("type") == "array":
        return f"list of {_kind(schema, value['items'])}"
    return str(value.get("format") or value.get("type") or "anything").replace("date-time", "time")
