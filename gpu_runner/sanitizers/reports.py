"""Reads the reports of GCC's sanitizers and of compute-sanitizer out of what a process printed."""

from __future__ import annotations

import re
from collections.abc import Collection

from gpu_runner.sanitizers.findings import Found, What

MAX_FOUND = 20
_TEXT = 200  # characters of a sentence
_ADDRESS = re.compile(r"==\d+==ERROR: AddressSanitizer: (?P<kind>[\w-]+)(?P<rest>[^\n]*)")
_ACCESS = re.compile(r"^(?P<access>(?:READ|WRITE) of size \d+)", re.MULTILINE)
_NEAR = re.compile(r"is located (?P<near>\d+ bytes [^\n]*?region)")
_UNDEFINED = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?: runtime error: (?P<text>[^\n]*)$", re.MULTILINE)
_THREAD = re.compile(r"WARNING: ThreadSanitizer: (?P<kind>[^\n(]+?) \(pid=\d+\)")
_FRAME = re.compile(r"^\s+#\d+ (?P<frame>[^\n]*)$", re.MULTILINE)
_PLACE = re.compile(r"(?:^|[\s/(])(?P<file>kernels/[A-Za-z0-9_][A-Za-z0-9_.-]*):(?P<line>\d+)")
# What undefined behaviour is an access outside of its object, too.
_OUTSIDE = re.compile(r"out of bounds|insufficient space|null pointer|not a valid|dynamic type")

_CUDA = re.compile(
    r"(?P<head>Invalid __\w+__ \w+ of size \d+ bytes|Uninitialized __\w+__ memory read of size \d+ bytes|"
    r"(?:Error|Warning|Potential \w+ hazard|RAW hazard|WAW hazard|WAR hazard)[^\n]*(?:[Rr]ace|hazard)[^\n]*|"
    r"Misaligned __\w+__ \w+ of size \d+ bytes|Invalid (?:free|copy|memset|__\w+__)[^\n]*|Barrier error[^\n]*|"
    r"Program hit (?P<error>cuda\w+|CUDA_\w+)[^\n]*)"
)
_CUDA_PLACE = re.compile(r"(?:in |\()(?:\S*/)?(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*\.(?:cu|cuh|h|hpp|cpp)):(?P<line>\d+)")


def _place(text: str, files: Collection[str]) -> tuple[str, int]:
    """The first of the candidate's own files in a stack."""
    for match in _PLACE.finditer(text):
        if match["file"] in files:
            return match["file"], int(match["line"])
    return "", 0


def address(text: str, files: Collection[str]) -> list[Found]:
    """Reports of the address and undefined-behaviour sanitizers. `files`: paths of the candidate's sources and headers."""
    found = []
    for match in _UNDEFINED.finditer(text):
        place = _place(f" {match['path']}:{match['line']}", files)
        what = What.MEMORY if _OUTSIDE.search(match["text"]) else What.UNDEFINED
        found.append(Found(what, _kind(match["text"]), match["text"][:_TEXT], *place))
    for match in _ADDRESS.finditer(text):
        report = text[match.end() :]
        access, near = _ACCESS.search(report), _NEAR.search(report)
        # The first stack is the access; what follows is where the memory came from.
        end = _first_stack_ends(report)
        said = (access["access"].lower() if access and access.start() < end else match["rest"].strip()) + (
            f", {near['near']}" if near else ""
        )
        found.append(Found(What.MEMORY, match["kind"], said[:_TEXT], *_place(report[:end], files)))
    return _distinct(found)


def thread(text: str, files: Collection[str]) -> list[Found]:
    """Reports of the thread sanitizer that lead to the candidate's sources; others are about libraries it does not see into."""
    found = []
    for report in text.split("=================="):
        if (match := _THREAD.search(report)) is None:
            continue
        place = _place(report[: _first_stack_ends(report)], files)
        if place[0]:
            what = What.RACE if "race" in match["kind"] else What.MEMORY if "free" in match["kind"] else What.UNDEFINED
            second = _place(report[_first_stack_ends(report) :], files)
            said = f"two threads use the same memory without an order, one of them writes ({place[0]}:{place[1]}"
            said += f" and {second[0]}:{second[1]})" if second[0] else ")"
            found.append(Found(what, match["kind"], said[:_TEXT], *place))
    return _distinct(found)


def compute(text: str, tool: str, files: Collection[str]) -> list[Found]:
    """Reports of compute-sanitizer. Its lines begin with nine equals signs; a report ends at an empty one."""
    names = {path.rsplit("/", 1)[-1]: path for path in files}
    lines = [line[9:].strip() for line in text.splitlines() if line.startswith("=========")]
    found = []
    for report in "\n".join(lines).split("\n\n"):
        if (match := _CUDA.search(report)) is None:
            continue
        # What the host did is below; the kernel's own frames come before it.
        device = report.split("Saved host backtrace")[0].split("Host Frame")[0]
        places = ((names[m["name"]], int(m["line"])) for m in _CUDA_PLACE.finditer(device) if m["name"] in names)
        file, line = next(places, ("", 0))
        what = {"initcheck": What.UNINITIALISED, "racecheck": What.RACE}.get(tool, What.MEMORY)
        near = next((text for text in device.splitlines() if "nearest allocation" in text or "out of bounds" in text), "")
        said = f"{match['head']}{', ' + near.removeprefix('and ') if near else ''}"
        if match["error"]:
            what, file, line = What.UNDEFINED, "", 0
        found.append(Found(what, _kind(match["head"]), said[:_TEXT], file, line))
    return _distinct(found)


def _first_stack_ends(report: str) -> int:
    """Where the first run of frames stops."""
    end = 0
    for frame in _FRAME.finditer(report):
        if end and report[end : frame.start()].strip():
            break
        end = frame.end()
    return end or len(report)


def _kind(text: str) -> str:
    """What a message is about, without its numbers: "signed integer overflow", "index out of bounds"."""
    if "out of bounds" in text:
        return "index out of bounds"
    if "Race reported" in text or "hazard" in text:
        return "race in shared memory"
    if "insufficient space" in text:
        return "access outside of an object"
    words = re.split(r"[:,(]| of size | with | for type | to address | address ", text, maxsplit=1)[0]
    return re.sub(r"\b(0x)?[0-9a-f]*\d[0-9a-f]*\b", "", words.replace("__", "")).strip()[:60].lower()


def _distinct(found: list[Found]) -> list[Found]:
    unique = {(f.what, f.kind, f.file, f.line): f for f in reversed(found)}
    return list(reversed(unique.values()))[:MAX_FOUND]
