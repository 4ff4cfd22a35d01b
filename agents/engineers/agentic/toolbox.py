"""The tools as a model is told of them, and its calls as something done: whatever it writes, a call ends in a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.engineers.agentic.workbench import MOST_SHOWN, Refused, Workbench
from agents.engineers.llm.loose_json import NotJson, read
from agents.llm.tools import MOST_CALLS, ToolCall

FINISH = "finish"
_MARKED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Tool:
    """`given`: its arguments, name to (type, what it is); those with a default in `optional`. `runs`: the hands are at work."""

    name: str
    about: str
    given: Mapping[str, tuple[str, str]]
    optional: frozenset[str] = frozenset()
    runs: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """As OpenAI's protocol describes a tool."""
        properties = {name: {"type": kind, "description": about} for name, (kind, about) in self.given.items()}
        needed = [name for name in self.given if name not in self.optional]
        parameters = {"type": "object", "properties": properties, "required": needed}
        return {"type": "function", "function": {"name": self.name, "description": self.about, "parameters": parameters}}


_PATH = ("string", "of a file, such as model_new.py or kernels/k.cpp")
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("list_files", "The candidate's files, and the reference.", {}),
        Tool(
            "read_file",
            "A file with the numbers of its lines.",
            {"path": _PATH, "first": ("integer", "first line"), "last": ("integer", "last line")},
            frozenset({"first", "last"}),
        ),
        Tool("search", "The lines of all files that hold a text.", {"text": ("string", "what to look for, as it stands")}),
        Tool(
            "write_file", "Writes a file whole, new or over an old one.", {"path": _PATH, "text": ("string", "its whole text")}
        ),
        Tool(
            "edit_file",
            "Replaces one place of a file.",
            {"path": _PATH, "old": ("string", "the text as it stands there, exactly once"), "new": ("string", "the new text")},
        ),
        Tool("delete_file", "Removes a file of the candidate.", {"path": _PATH}),
        Tool("build", "Compiles the kernels; says the first errors.", {}, runs=True),
        Tool("verify", "Builds, and compares the results with the reference's.", {}, runs=True),
        Tool("time", "Times the candidate against the reference in eager PyTorch.", {}, runs=True),
        Tool("profile", "What bounds the candidate, and where its time goes.", {}, runs=True),
        Tool(FINISH, "Hands the files in and ends the work.", {"summary": ("string", "in one sentence, what was done")}),
    )
}
TOLD: tuple[dict[str, Any], ...] = tuple(tool.told for tool in TOOLS.values())


@dataclass(frozen=True)
class Done:
    """What came of a call. `useful`: it did or showed something; `handed_in`: the work is over, with `text` as its summary."""

    call: ToolCall
    text: str
    useful: bool = True
    handed_in: bool = False


class Toolbox:
    """Does the calls of one attempt on its workbench."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self._seen: dict[tuple[str, str], tuple[int, str]] = {}  # a call: the revision that it was made at, and what it said

    def do(self, call: ToolCall) -> Done:
        """Does a call. A name or arguments that cannot be are told, never guessed."""
        tool = TOOLS.get(call.name)
        if tool is None:
            return Done(call, f"There is no tool {call.name[:60]!r}. Those that there are: {', '.join(TOOLS)}.", useful=False)
        try:
            given = _arguments(tool, call.arguments)
        except Refused as error:
            return Done(call, str(error), useful=False)
        key = (call.name, json.dumps(given, sort_keys=True))
        at, said = self._seen.get(key, (-1, ""))
        if at == self.bench.revision:
            return Done(call, f"You had that already, and nothing has changed since:\n{said}", useful=False)
        try:
            if tool.name == FINISH:
                self.bench.handed_in()
                return Done(call, given["summary"], handed_in=True)
            action: Callable[..., str] = getattr(self.bench, tool.name)
            text, useful = _short(action(**given)), True
        except Refused as error:
            text, useful = str(error), tool.runs
        self._seen[key] = (self.bench.revision, text)
        return Done(call, text, useful)


def calls_in(text: str) -> tuple[ToolCall, ...]:
    """Calls that a model wrote as text, as some do whose server knows no tools: `<tool_call>{"name": …}</tool_call>`."""
    found = []
    for n, body in enumerate(_MARKED.findall(text)[:MOST_CALLS], 1):
        try:
            value = read(body, dict)
        except NotJson:
            continue
        name, given = value.get("name"), value.get("arguments", {})
        if isinstance(name, str):
            found.append(ToolCall(f"text-{n}", name, given if isinstance(given, str) else json.dumps(given)))
    return tuple(found)


def readable(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """The calls as the conversation repeats them: servers that read the arguments again would fail on what is no JSON."""
    return [(call if _is_object(call.arguments) else ToolCall(call.id, call.name, "{}")).said for call in calls]


def _arguments(tool: Tool, text: str) -> dict[str, Any]:
    """The arguments of a call. Refused with a sentence where they are none of this tool's."""
    try:
        value: dict[str, Any] = read(text, dict) if text.strip() else {}
    except NotJson as error:
        raise Refused(f"The arguments of {tool.name} cannot be read. {error} Call it again, with one JSON object.") from error
    given: dict[str, Any] = {}
    for name, (kind, about) in tool.given.items():
        if name not in value or value[name] is None:
            if name in tool.optional:
                continue
            raise Refused(f"{tool.name} needs {name!r}: {about}.")
        got = value[name]
        if kind == "integer" and isinstance(got, str | float) and re.fullmatch(r"-?\d{1,9}(\.0)?", str(got)):
            got = int(float(got))
        if kind == "integer" and (isinstance(got, bool) or not isinstance(got, int) or abs(got) > 10**9):
            raise Refused(f"{name!r} of {tool.name} has to be a whole number.")
        if kind == "string" and not isinstance(got, str):
            raise Refused(f"{name!r} of {tool.name} has to be a text.")
        if isinstance(got, str) and ("\x00" in got or got.encode(errors="replace").decode() != got):
            raise Refused(f"{name!r} holds characters that no source file has (NUL, or halves of a character).")
        given[name] = got
    return given


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n… {len(text) - MOST_SHOWN} more characters"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
