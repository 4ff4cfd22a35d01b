"""Lines of C++ or Python with indentation, and names that read well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Collects lines; `block` opens braces and indents."""

    def __init__(self, step: str = "    ") -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.step = step

    def __call__(self, text: str = "") -> None:
        self.lines.append(self.step * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self(head)
        self.depth += 1
        yield
        self.depth -= 1
        if tail:
            self(tail)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


RESERVED = frozenset(
    "and or not int long float bool double char if else for while do switch case new delete this class struct union enum const static "
    "void return near far log exp tanh sqrt pow abs floor ceil erf j0 j1 jn y0 y1 yn gamma signed unsigned short auto register in is "
    "lambda def from import as with pass try except raise yield None True False del global torch self".split()
)


def identifier(name: str) -> str:
    """A graph's name as an identifier of both languages, without the prefixes that torch.export adds."""
    name = re.sub(r"^(p|b|c)_(?=.)", "", name)
    name = re.sub(r"\W", "_", name)
    return f"{name}_" if name in RESERVED or name[0].isdigit() else name


class Names:
    """Gives each thing a short name that is not taken."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self.taken = set(taken or ())

    def fresh(self, wanted: str) -> str:
        name, k = wanted, 1
        while name in self.taken or name in RESERVED:
            k += 1
            name = f"{wanted}{k}"
        self.taken.add(name)
        return name


def comment(text: str, width: int = 112) -> list[str]:
    """A text as `//` lines."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = "//"
        for word in paragraph.split():
            if len(line) + 1 + len(word) > width:
                lines.append(line)
                line = "//"
            line += f" {word}"
        lines.append(line)
    return lines
