"""A Coder's answer as the files of a candidate, or a sentence why it is none.

Understood are whole files in fences that say their path, search/replace blocks, lines `DELETE path`, and, where no path is said
at all, one block of Python with `class ModelNew`. Edits are applied exactly or not at all; nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pydantic import ValidationError

from agents.engineers import UnusableAnswer
from agents.engineers.llm.loose_json import without_thinking
from gpu_runner.contracts import CandidateFiles

MODEL_FILE = "model_new.py"
MOST_TEXT = 2_000_000  # characters: no answer is longer, so this is about what tests and cassettes may hand in
_SUFFIXES = r"(?:py|toml|json|cu|cuh|cpp|cc|cxx|c|h|hpp)"
_PATH = re.compile(rf"[\w./\\~:-]+\.{_SUFFIXES}", re.IGNORECASE)
# A line that says a path and nothing else: "### `kernels/a.cpp`:", "File: model_new.py", "// kernels/a.cpp"
_HEADER = re.compile(
    rf"[^\w./\\~]{{0,12}}(?:(?:file(?:name)?|path)\b[^\w./\\~]{{1,6}})?([\w./\\~:-]{{1,200}}\.{_SUFFIXES})[^\w./\\~]{{0,12}}",
    re.IGNORECASE,
)
_OPEN = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})([^`]*)")
_DELETE = re.compile(r"[ \t*`-]{0,6}DELETE[ \t]+`?([^\s`]{1,200})`?[ \t]*")
_SEARCH, _MIDDLE, _REPLACE = re.compile(r"<{5,9} ?SEARCH\b.*"), re.compile(r"={5,9}[ \t]*"), re.compile(r">{5,9} ?REPLACE\b.*")
_CLASS = re.compile(r"^(?:class[ \t]+ModelNew\b|ModelNew[ \t]*=)", re.MULTILINE)
_BARE = re.compile(r"\s*(?:import |from |#|\"\"\"|''')")  # how a program without a fence begins
_KERNEL_LANGUAGES = frozenset({"cpp", "c++", "c", "cu", "cuda", "cc", "cxx"})


@dataclass
class _Block:
    """A fenced block: its language and path as far as it says them."""

    language: str
    path: str
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip() + "\n"


@dataclass(frozen=True)
class _Edit:
    path: str
    old: str
    new: str


@dataclass
class _Parts:
    blocks: list[_Block] = field(default_factory=list)
    edits: list[_Edit] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)


def read_files(text: str, base: dict[str, str]) -> tuple[CandidateFiles, str]:
    """The candidate that the answer makes of `base` (path to text, empty: nothing is there yet), and its first words of prose.

    Files that the answer does not mention stay. Raises UnusableAnswer with a sentence that the model can act on.
    """
    text = without_thinking(text).replace("\r\n", "\n")
    if len(text) > MOST_TEXT:
        raise UnusableAnswer(f"The answer has {len(text)} characters; at most {MOST_TEXT} are read.")
    if "\x00" in text or text.encode(errors="replace").decode() != text:
        raise UnusableAnswer("The answer holds characters that no source file has (NUL, or halves of a character).")
    parts = _split(text)
    files = _applied(parts, text, base)
    if files == base:
        raise UnusableAnswer("The answer changes nothing in the program that it was to change.")
    return checked(files), _first_words(parts.prose)


def checked(files: dict[str, str]) -> CandidateFiles:
    """The files as a candidate's. UnusableAnswer with a sentence where they are none."""
    if MODEL_FILE in files and not _CLASS.search(files[MODEL_FILE]):
        raise UnusableAnswer(f"The file {MODEL_FILE} has no class ModelNew.")
    try:
        found = CandidateFiles(files=files)
        _ = found.manifest
    except ValueError as error:
        raise UnusableAnswer(sentence_of(error)) from error
    return found


def _applied(parts: _Parts, text: str, base: dict[str, str]) -> dict[str, str]:
    said = [block for block in parts.blocks if block.path]
    silent = [block for block in parts.blocks if not block.path]
    models = [block for block in silent if _CLASS.search(block.text)]
    if not said and not parts.edits and not parts.deleted:
        return _one_program(models, silent, text, base)
    files = dict(base)
    for block in said:
        files[allowed(block.path)] = block.text
    for block in silent:
        if block.language in _KERNEL_LANGUAGES and not _CLASS.search(block.text):
            raise UnusableAnswer(
                "A block of kernel code does not say its path; write it behind the language: ```cpp kernels/k.cpp"
            )
    if models and not any(allowed(block.path) == MODEL_FILE for block in said):
        files[MODEL_FILE] = models[-1].text
    for edit in parts.edits:
        files[allowed(edit.path)] = _edited(edit, files)
    for path in parts.deleted:
        if files.pop(allowed(path), None) is None:
            raise UnusableAnswer(f"There is no file {path} that could be deleted.")
    return files


def _one_program(models: list[_Block], silent: list[_Block], text: str, base: dict[str, str]) -> dict[str, str]:
    """An answer without any path: the last block with the class, or the bare text when it is a program without a fence."""
    if models:
        program = models[-1].text
    elif not silent and _CLASS.search(text) and _BARE.match(text):
        program = text.strip() + "\n"
    else:
        have = "its code defines no class ModelNew" if silent else "it holds no block of code"
        raise UnusableAnswer(f"The answer cannot be used: {have}.")
    kept = base if "libkernels" in program else {}  # a program that loads no library of ours stands alone
    return {**kept, MODEL_FILE: program}


def _split(text: str) -> _Parts:
    parts, lines = _Parts(), text.split("\n")
    before, i = "", 0  # `before`: the last line of prose, which may be the path of what follows
    while i < len(lines):
        line = lines[i]
        if _SEARCH.fullmatch(line.strip()):
            edit, i = _edit(lines, i, _header(before))
            parts.edits.append(edit)
            continue
        if (fence := _OPEN.fullmatch(line)) is not None:
            i = _fenced(parts, lines, i, fence.group(1), fence.group(2).strip(), before)
            before = ""
            continue
        if (delete := _DELETE.fullmatch(line)) is not None:
            parts.deleted.append(delete.group(1))
        elif line.strip():
            before = line
            parts.prose.append(line)
        i += 1
    return parts


def _fenced(parts: _Parts, lines: list[str], start: int, mark: str, info: str, before: str) -> int:
    """Takes in the block that opens at `start`; the number of the line behind it."""
    close = re.compile(rf"[ \t]{{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*")
    end = next((i for i in range(start + 1, len(lines)) if close.fullmatch(lines[i])), None)
    if end is None:
        raise UnusableAnswer("The answer ends inside a block of code: it was cut, or its fence is not closed.")
    body = lines[start + 1 : end]
    language = re.split(r"[\s:{]", info, maxsplit=1)[0].lower() if info else ""
    named = _PATH.search(info[:300])
    path = named.group() if named else _header(before)
    if path.lower().startswith(f"{language}:") and language:  # ```python:model_new.py
        path = path[len(language) + 1 :]
    if not path and body and re.match(r"\s*(?:#|//|/\*)", body[0]):
        path = _header(body[0])
    if any(_SEARCH.fullmatch(line.strip()) for line in body):
        _edits(parts, body, path)
    else:
        parts.blocks.append(_Block(language, path, body))
    return end + 1


def _edits(parts: _Parts, body: list[str], path: str) -> None:
    """Search/replace blocks inside a fence; each may have its path on the line before it."""
    i = 0
    while i < len(body):
        if _SEARCH.fullmatch(body[i].strip()):
            edit, i = _edit(body, i, path)
            parts.edits.append(edit)
        else:
            path = _header(body[i]) or path
            i += 1


def _edit(lines: list[str], start: int, path: str) -> tuple[_Edit, int]:
    """The search/replace block at `start`, and the number of the line behind it."""
    middle = next((i for i in range(start + 1, len(lines)) if _MIDDLE.fullmatch(lines[i])), None)
    end = next((i for i in range(middle + 1, len(lines)) if _REPLACE.fullmatch(lines[i].strip())), None) if middle else None
    if middle is None or end is None:
        raise UnusableAnswer("A search block is not complete: SEARCH, =======, REPLACE have to stand on lines of their own.")
    if not path:
        raise UnusableAnswer("A search block does not say the file it is for; write the path on the line before it.")
    return _Edit(path, "\n".join(lines[start + 1 : middle]), "\n".join(lines[middle + 1 : end])), end + 1


def _edited(edit: _Edit, files: dict[str, str]) -> str:
    path = allowed(edit.path)
    if path not in files:
        if edit.old.strip():
            raise UnusableAnswer(f"There is no file {path} to search in; give a new file whole.")
        return edit.new.rstrip() + "\n"
    text, times = files[path], files[path].count(edit.old) if edit.old.strip() else 0
    if times != 1:
        first = next((line.strip() for line in edit.old.split("\n") if line.strip()), "")[:80]
        found = f"is there {times} times" if times else "is not there"
        raise UnusableAnswer(f"The text to replace in {path}, which begins with {first!r}, {found}; it has to be there once.")
    return text.replace(edit.old, edit.new, 1)


def _header(line: str) -> str:
    found = _HEADER.fullmatch(line.strip()) if len(line) < 240 else None
    return found.group(1) if found else ""


def allowed(path: str) -> str:
    """The path inside the candidate's folder; a kernel without a folder lies in kernels/. UnusableAnswer when it leads out."""
    plain = path.removeprefix("./")
    if plain.startswith(("/", "~")) or ".." in plain.split("/") or "\\" in plain or ":" in plain:
        raise UnusableAnswer(
            f"The path {path!r} leads out of the candidate's folder; write relative paths, such as {MODEL_FILE}."
        )
    if "/" not in plain and plain.endswith((".cu", ".cuh", ".cpp", ".h", ".hpp")):
        return f"kernels/{plain}"
    return plain


def _first_words(prose: list[str]) -> str:
    for line in prose:
        words = " ".join(line.strip(" #*-`:>").split())
        if len(words) > 3 and not _header(line):
            return words[:300]
    return ""


def sentence_of(error: ValueError) -> str:
    """What is wrong with files, in a sentence."""
    if isinstance(error, ValidationError):
        text = str(error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"])
        text = text.removeprefix("Value error, ")
    else:
        text = str(error)
    return (text[:1].upper() + text[1:])[:400].rstrip(".") + "."
