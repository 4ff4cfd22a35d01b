"""Reading a program from a file, or a sentence why not."""

from __future__ import annotations

import re
from pathlib import Path

MAX_SOURCE = 1_000_000  # bytes


class Unreadable(Exception):
    """The file is no program that could be looked at. The message is a sentence with a way out."""


def read_program(path: Path) -> str:
    """The text of a program. Raises Unreadable."""
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE:
            raise Unreadable(f"The file has {size} bytes; at most {MAX_SOURCE} are taken. Keep weights out of the source.")
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"The file is not UTF-8 text: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise Unreadable(f"The file cannot be read: {error.strerror or error}.") from error


def header(text: str) -> dict[str, str]:
    """What a program's docstring says of it: `family` and `size`, from lines such as "Family: convolution"."""
    found: list[tuple[str, str]] = re.findall(r"^(Family|Size): ([\w-]+)", text, flags=re.MULTILINE)
    return {name.lower(): word for name, word in found}
