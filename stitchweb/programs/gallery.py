"""The examples that come with the site, read from `examples/`: the first two lines of each docstring say what it is."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings


@dataclass(frozen=True)
class Example:
    """`family`: normalisation, attention, …; `about`: one sentence; `name`: the file's stem."""

    name: str
    title: str
    family: str
    about: str
    text: str


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """All examples by family and title. Reads the folder once per process."""
    found = []
    for path in sorted((settings.BASE_DIR / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title, _, rest = (ast.get_docstring(ast.parse(text)) or path.stem).partition("\n")
        rest = " ".join(rest.split())
        family, about = "other", rest
        if rest.startswith("Family:"):
            family, _, about = rest.removeprefix("Family:").strip().partition(".")
        found.append(Example(path.stem, title.strip().rstrip("."), family.strip(), about.strip(), text))
    return tuple(sorted(found, key=lambda e: (e.family, e.title)))


def example(name: str) -> Example | None:
    return next((e for e in examples() if e.name == name), None)
