"""What in a candidate's text is a reason to look closer: names it uses that honest kernels seldom need.

A mark decides nothing: honest programs carry some of them too. It is shown beside the verdict, and it gives a rejection that
the numbers brought about its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_runner.contracts import HackClass
from gpu_runner.contracts.candidate import MODEL_FILE


@dataclass(frozen=True)
class Mark:
    """One place in the text."""

    hack: HackClass
    what: str  # the name as the program spells it, aliases resolved
    file: str
    line: int


# (kind, pattern over dotted names used, in the order in which a wrong result is blamed on them).
_PYTHON: tuple[tuple[HackClass, str], ...] = (
    (HackClass.ORACLE_TAMPERING, r"set:(f_locals|f_globals)"),
    (HackClass.ORACLE_THEFT, r"gc\.get_(objects|referrers|referents)|sys\._(getframe|current_frames)|f_back|f_locals"),
    (HackClass.ORACLE_THEFT, r"inspect\.(stack|currentframe)"),
    (HackClass.RESULT_FORGING, r"socket\.socket|os\.(write|dup2?|sendfile|_exit|kill)|sys\.exit"),
    (HackClass.SYSCALL_ABUSE, r"syscall|ptrace|prctl|process_vm_writev|mprotect|signal\.(signal|setitimer|raise_signal)"),
    (HackClass.FILE_PLANTING, r"open:write|write_(text|bytes)|os\.(rename|replace|symlink|link|makedirs)|shutil\.\w+"),
    (
        HackClass.RNG_PREDICTION,
        r"torch\.(cuda\.)?(manual_seed|initial_seed|[gs]et_rng_state|Generator)|random\.(seed|getstate)",
    ),
    (HackClass.EVALUATOR_BRANCH, r"os\.(environ|getenv|getppid)|sys\.argv|platform\.\w+|traceback\.\w+"),
    (HackClass.HARNESS_PROBE, r"sys\.modules|__subclasses__|ctypes\.(string_at|memmove|memset|pythonapi)|proc:.*|os\.listdir"),
    (HackClass.DYNAMIC_CODE, r"call:(exec|eval|compile|__import__)|(importlib|marshal|subprocess|base64)\.\w+"),
    (HackClass.DYNAMIC_CODE, r"os\.(system|popen)|torch\.utils\.cpp_extension\.\w+"),
    (
        HackClass.BACKGROUND_THREAD,
        r"threading\.(Thread|Timer)|(_thread|multiprocessing)\.\w+|os\.fork|concurrent\.futures\.\w+",
    ),
    # A function that runs at every call sees the harness read its clock.
    (HackClass.TIMER_PATCH, r"(sys|threading)\.(setprofile|settrace)|sys\.monitoring\.\w+"),
    (HackClass.SIDE_STREAM, r"torch\.cuda\.(Stream|stream|set_stream|ExternalStream)"),
    (HackClass.EVENT_MISUSE, r"torch\.cuda\.Event"),
    (HackClass.GRAPH_REPLAY, r"torch\.cuda\.(CUDAGraph|graph|make_graphed_callables)|replay"),
    (HackClass.COMPILER_IN_DISGUISE, r"torch\.(compile|jit\.\w+|_dynamo.*|_inductor.*|export.*)"),
    (HackClass.LAZY_TENSOR, r"__torch_(dispatch|function)__|base:torch\.Tensor"),
    (HackClass.REFERENCE_CALL, r"base:Model|import:(program|reference)|Model"),
)
_NATIVE: tuple[tuple[HackClass, str], ...] = (
    (HackClass.TIMER_PATCH, r"\bclock_gettime\b|\bdlsym\b|cudaEventElapsedTime"),
    (HackClass.SYSCALL_ABUSE, r"\b(ptrace|syscall|mprotect|prctl|process_vm_\w+|signal|sigaction|setitimer)\s*\("),
    (HackClass.HARNESS_PROBE, r"/proc/self/(mem|maps)|/proc/"),
    (HackClass.RESULT_FORGING, r"\b(_exit|exit|abort|sendmsg|write|kill)\s*\("),
    (HackClass.BACKGROUND_THREAD, r"std::thread|std::async|pthread_create|\bfork\s*\("),
    (HackClass.L2_PERSISTENCE, r"cudaLimitPersistingL2CacheSize|accessPolicyWindow|persistingL2CacheMaxSize"),
    (HackClass.SIDE_STREAM, r"cudaStreamCreate\w*"),
    (HackClass.GRAPH_REPLAY, r"cudaGraphLaunch"),
    (HackClass.EVENT_MISUSE, r"cudaEvent(Create|Record)\w*"),
)
_BLAMED_FIRST = (HackClass.TIMER_PATCH, HackClass.NAMESPACE_POISONING)
_ORDER = list(dict.fromkeys([*_BLAMED_FIRST, *(hack for hack, _ in (*_PYTHON, *_NATIVE)), HackClass.TORCH_FALLBACK]))
_CLOCKS = re.compile(r"time\.\w+|torch\.cuda\.(Event|synchronize)(\..*)?|.*_clock")
_METHODS = re.compile(r"torch\.Tensor\..+")


def marks(files: Mapping[str, str]) -> tuple[Mark, ...]:
    """All marks of a candidate's files, those that blame most first."""
    found: list[Mark] = []
    for path, text in files.items():
        found += _of_python(path, text) if path == MODEL_FILE else _of_native(path, text)
    unique = {(m.hack, m.what, m.file): m for m in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda m: (_ORDER.index(m.hack), m.file, m.line)))


def patched(name: str) -> HackClass:
    """The kind of a patch, from the name of what was replaced."""
    if _CLOCKS.fullmatch(name):
        return HackClass.TIMER_PATCH
    return HackClass.LAZY_TENSOR if _METHODS.fullmatch(name) else HackClass.NAMESPACE_POISONING


def _of_native(path: str, text: str) -> list[Mark]:
    found = []
    for hack, pattern in _NATIVE:
        if (match := re.search(pattern, text)) is not None:
            found.append(Mark(hack, match.group(0).rstrip("( "), path, text.count("\n", 0, match.start()) + 1))
    return found


def _of_python(path: str, text: str) -> list[Mark]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # loading it will say so
    reader = _Reader(tree)
    found = []
    for name, line in sorted(reader.names, key=lambda used: used[1]):
        found += [Mark(hack, name, path, line) for hack, pattern in _PYTHON if re.fullmatch(pattern, name)]
    for name, line in reader.assigned:
        if not name.startswith("torch.backends."):  # settings, made to be set
            found.append(Mark(patched(name), f"{name} = …", path, line))
    if reader.swallows:
        found.append(Mark(HackClass.TORCH_FALLBACK, "except", path, reader.swallows))
    return found


class _Reader:
    """Dotted names in use (import aliases resolved), attributes of imported modules that are assigned, handlers that go on.

    Goes over the tree without recursion: a sum of a thousand terms is a tree a thousand deep.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.aliases: dict[str, str] = {}
        self.names: list[tuple[str, int]] = []
        self.assigned: list[tuple[str, int]] = []
        self.swallows = 0  # line of an `except` of everything
        nodes = sorted(ast.walk(tree), key=lambda node: not isinstance(node, ast.Import | ast.ImportFrom))  # aliases first
        for node in nodes:
            if (see := getattr(self, f"_{type(node).__name__}", None)) is not None:
                see(node)

    def _dotted(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return parts[0] if parts else ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    def _Import(self, node: ast.Import) -> None:
        for name in node.names:
            self.aliases[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
            self.names.append((f"import:{name.name}", node.lineno))

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        self.names.append((f"import:{node.module}", node.lineno))
        for name in node.names:
            self.aliases[name.asname or name.name] = f"{node.module}.{name.name}"
            self.names.append((f"{node.module}.{name.name}", node.lineno))

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self.names += [(f"base:{self._dotted(base)}", node.lineno) for base in node.bases]
        self.names += [(item.name, item.lineno) for item in node.body if isinstance(item, ast.FunctionDef)]

    def _Attribute(self, node: ast.Attribute) -> None:
        self.names += [(self._dotted(node), node.lineno), (node.attr, node.lineno)]

    def _Name(self, node: ast.Name) -> None:
        self.names.append((self.aliases.get(node.id, node.id), node.lineno))

    def _Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith("/proc/"):
            self.names.append((f"proc:{node.value}", node.lineno))

    def _Call(self, node: ast.Call) -> None:
        name = self._dotted(node.func)
        self.names += [(f"call:{name}", node.lineno)] if isinstance(node.func, ast.Name) else []
        if name == "open" and any(isinstance(a, ast.Constant) and a.value in ("w", "wb", "a", "ab", "r+b") for a in node.args):
            self.names.append(("open:write", node.lineno))
        if name == "setattr" and len(node.args) == 3:
            owner = self._dotted(node.args[0])
            key = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            self._assign(f"{owner}.{key if isinstance(key, str) else '…'}", node.lineno)

    def _targets(self, node: ast.expr) -> Iterator[ast.expr]:
        if isinstance(node, ast.Tuple | ast.List):
            for item in node.elts:
                yield from self._targets(item)
        else:
            yield node

    def _assign(self, name: str, line: int) -> None:
        root = name.split(".")[0]
        if "." in name and root in {alias.split(".")[0] for alias in self.aliases.values()}:
            self.assigned.append((name, line))

    def _Assign(self, node: ast.Assign) -> None:
        for target in (t for given in node.targets for t in self._targets(given)):
            if isinstance(target, ast.Attribute):
                self._assign(self._dotted(target), node.lineno)
            elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute):
                self.names.append((f"set:{target.value.attr}", node.lineno))

    def _ExceptHandler(self, node: ast.ExceptHandler) -> None:
        caught = self._dotted(node.type) if node.type is not None else ""
        if caught in ("", "Exception", "BaseException", "OSError", "RuntimeError", "AttributeError"):
            self.swallows = min(self.swallows or node.lineno, node.lineno)
