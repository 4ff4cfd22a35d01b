"""What goes beside the program into the zip and the wheel: scripts for another machine, kept as text, for here torch belongs to
the sandbox alone."""

from importlib.resources import files


def verify_script() -> str:
    """The text of the take-home `verify.py`."""
    return files(__name__).joinpath("verify.py.txt").read_text(encoding="utf-8")


def package_script() -> str:
    """The text of the wheel's `__init__.py`, with names between @ signs where the program's own facts go."""
    return files(__name__).joinpath("package.py.txt").read_text(encoding="utf-8")
