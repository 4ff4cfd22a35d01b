"""What goes into the zip beside the program. `verify.py.txt` is a script for another machine, kept as text: here, torch belongs
to the sandbox alone."""

from importlib.resources import files


def verify_script() -> str:
    """The text of the take-home `verify.py`."""
    return files(__name__).joinpath("verify.py.txt").read_text(encoding="utf-8")
