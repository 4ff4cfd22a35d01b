"""Executes a user's file in a namespace of its own and finds what it offers. Everything wrong with it becomes a `Refused`."""

from __future__ import annotations

import ast
import os
import sys
import traceback
import types
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from . import tensors

PROGRAM = "program"
REFERENCE_FILE = "reference.py"
CONSTRUCTION_SEED = 20_240_229  # both sides construct under it, so that unregistered random tensors agree; it is no secret
_LOG_LIMIT = 6000

# torch says once that a window on read-only memory is one. Said before any program may turn warnings into errors.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.frombuffer(b"0", dtype=torch.uint8)


class Refused(Exception):
    """What makes a program unusable, for people: what, why, the way out, the user's line."""

    def __init__(self, code: str, sentence: str, way_out: str = "", line: int | None = None, log: str = "") -> None:
        super().__init__(sentence)
        self.code, self.sentence, self.way_out, self.line, self.log = code, sentence, way_out, line, log

    def as_dict(self) -> dict[str, Any]:
        fields = ("code", "sentence", "way_out", "line", "log")
        return {name: getattr(self, name) for name in fields}


@dataclass
class Program:
    """A loaded reference: its namespace, the module class and the two input functions."""

    module: types.ModuleType
    entry: str
    cls: type[torch.nn.Module]
    get_inputs: Any
    init_args: tuple[Any, ...]
    init_kwargs: dict[str, Any]
    init_literal: Any
    path: str


def user_frames(error: BaseException, root: str) -> tuple[str, int | None]:
    """(trimmed traceback with the user's lines only, the deepest line of the user's file)."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(root)]
    lines = [f"  {os.path.basename(f.filename)}, line {f.lineno}, in {f.name}\n    {(f.line or '').strip()}" for f in frames]
    text = "\n".join([*lines, f"{type(error).__name__}: {error}"])
    return text[-_LOG_LIMIT:], frames[-1].lineno if frames else None


def crash(code: str, where: str, error: BaseException, root: str, way_out: str = "") -> Refused:
    """The refusal for an exception out of user code."""
    log, line = user_frames(error, root)
    first = (str(error).strip().splitlines() or [""])[0][:300]
    said = f"{type(error).__name__}: {first}".rstrip(" :.")
    return Refused(code, f"{where} failed with {said}.", way_out, line, log)


def execute(path: str, name: str) -> tuple[types.ModuleType, str]:
    """Run a file as the module `name`; gives the module and its text. Raises `Refused` with the user's line."""
    root = os.path.dirname(path)
    with open(path, "rb") as handle:
        raw = handle.read()
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Refused("not_utf8", f"The file is not UTF-8 text: {error}.", "Save it as UTF-8.") from error
    try:
        code = compile(text, path, "exec")
    except SyntaxError as error:
        raise Refused(
            "syntax_error",
            f"The file is not valid Python: {error.msg} in line {error.lineno}.",
            "Correct the line and upload the file again.",
            error.lineno,
            (error.text or "").rstrip(),
        ) from error
    except ValueError as error:
        raise Refused("not_python", f"The file is not Python source: {error}.", "Upload the program as a text file.") from error
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102  the whole point of this process
    except ModuleNotFoundError as error:
        package = (error.name or "?").split(".")[0]
        _, line = user_frames(error, root)
        raise Refused(
            "missing_package",
            f"The program imports the package {package}, which this runner does not have.",
            f"Remove the import, or install {package} on the runner and add its folder to the setting RUNNER_PACKAGES.",
            line,
        ) from error
    except ImportError as error:
        raise crash("import_failed", "An import of the program", error, root) from error
    except MemoryError as error:
        raise crash("out_of_memory", "Loading the file", error, root) from error
    except (Exception, SystemExit) as error:
        raise crash("crash_import", "Loading the file", error, root, "The file must be importable on its own.") from error
    return module, text


def _module_classes(module: types.ModuleType) -> dict[str, type[torch.nn.Module]]:
    return {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    }


def _class_line(text: str, name: str) -> int | None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.lineno
    return None


def _entry(module: types.ModuleType, wanted: str) -> tuple[str, type[torch.nn.Module]]:
    classes = _module_classes(module)
    if wanted:
        if wanted in classes:
            return wanted, classes[wanted]
        known = ", ".join(classes) or "none"
        raise Refused(
            "no_module", f"The file has no nn.Module named {wanted}; it defines: {known}.", "Choose one of the classes."
        )
    if "Model" in classes:
        return "Model", classes["Model"]
    # A class that only serves as a part of another is still one of several: the person must say which.
    if len(classes) == 1:
        return next(iter(classes.items()))
    if not classes:
        raise Refused("no_module", "The file defines no nn.Module.", "Add a class Model(nn.Module) with a forward method.")
    names = ", ".join(classes)
    raise Refused(
        "several_modules",
        f"The file defines several modules ({names}) and none is called Model.",
        "Choose the class to optimize, or name it Model.",
    )


def load_reference(wanted: str = "") -> Program:
    """Load the program's file out of the working folder. Raises `Refused`."""
    path = os.path.abspath(REFERENCE_FILE)
    module, text = execute(path, PROGRAM)
    entry, cls = _entry(module, wanted)
    get_inputs = getattr(module, "get_inputs", None)
    if not callable(get_inputs):
        raise Refused(
            "no_get_inputs",
            f"The file has the module {entry} but no function get_inputs(), so there is nothing to run it on.",
            "Add get_inputs() that returns the list of arguments of forward, or describe the inputs in the form.",
            _class_line(text, entry),
        )
    args, kwargs, literal = _init_inputs(module)
    return Program(module, entry, cls, get_inputs, args, kwargs, literal, path)


def _init_inputs(module: types.ModuleType) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    function = getattr(module, "get_init_inputs", None)
    if function is None:
        return (), {}, []
    if not callable(function):
        raise Refused("init_not_json", "get_init_inputs is not a function.", "Make it a function that returns a list.")
    try:
        value = function()
    except (Exception, SystemExit) as error:
        raise crash("crash_init", "get_init_inputs()", error, os.getcwd()) from error
    value = [] if value is None else value
    line = function.__code__.co_firstlineno if hasattr(function, "__code__") else None
    if not isinstance(value, list | tuple | dict):
        raise Refused(
            "init_not_json",
            f"get_init_inputs() returned a {type(value).__name__}; a list of arguments (or a dict of named ones) is expected.",
            "Return a list, for example [1024, 16].",
            line,
        )
    try:
        literal = tensors.encode_literal(list(value) if isinstance(value, tuple) else value)
    except tensors.Unsupported as error:
        raise Refused(
            "init_not_json",
            f"get_init_inputs() must return plain data, but {error}.",
            "Return numbers, strings, booleans, None, dtypes, and lists, tuples or dicts of them; build tensors in __init__.",
            line,
        ) from error
    return (*init_arguments(literal), literal)


def init_arguments(literal: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and named constructor arguments behind the JSON form of `get_init_inputs()`."""
    value = tensors.decode_literal(literal)
    return ((), value) if isinstance(value, dict) else (tuple(value), {})


def construct(cls: type[torch.nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any], device: str, mode: str) -> Any:
    """An instance of the user's module on `device`, in `mode` (eval, train, as-constructed). Lets the user's errors through."""
    torch.manual_seed(CONSTRUCTION_SEED)
    model = cls(*args, **kwargs).to(device)
    if mode in ("eval", "train"):
        model.train(mode == "train")
    return model
