"""Answers that models give and that cannot be used, each with a word of the sentence that it has to end in."""

from __future__ import annotations

from itertools import product

MODEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
KERNEL = 'extern "C" void run(const float* x, float* out, long n) { for (long i = 0; i < n; ++i) out[i] = x[i]; }\n'
BASE = {"model_new.py": MODEL, "kernels/k.cpp": KERNEL}


def fenced(text: str, info: str = "python") -> str:
    return f"```{info}\n{text}```\n"


def edit(path: str, old: str, new: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


_WRONG_PATHS = [
    "../model_new.py",
    "../../etc/cron.py",
    "/etc/passwd.py",
    "/tmp/x.cpp",
    "~/x.cpp",
    "kernels/../../x.cpp",
    "C:\\x.cpp",
    "kernels\\k.cpp",
    "..\\x.cpp",
    "./../x.h",
    "kernels/../model_new.py",
    "file:///x.cpp",
    "//server/x.cpp",
    "~root/.bashrc.py",
]
_OTHER_PATHS = [
    "setup.py",
    "tests/test.py",
    "reference.py",
    "kernels/k.py",
    "kernels/sub/k.cpp",
    "src/k.cpp",
    "result.json",
    "pyproject.toml",
    "conftest.py",
    "sitecustomize.py",
    "kernels/.hidden.cpp",
    "model.py",
    "kernels/k.c",
    "lib/kernels.h",
]
_PROSE = [
    "",
    " ",
    "\n\n\n",
    "I cannot help with that.",
    "Sure! Here is the plan: fuse everything.",
    "```",
    "``````",
    "~~~",
    "<think>",
    "<think>Let me see.</think>",
    "<think>```python\nclass ModelNew: ...\n```",
    "null",
    "true",
    "42",
    "[]",
    "{}",
    '"text"',
    "{",
    "}",
    "[[[[",
    "]]]]",
    "{" * 5000,
    "[" * 100_000,
    '{"a":' * 3000,
    "DELETE",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "ModelNew",
    "class ModelNew",
    "The class ModelNew is left as an exercise.",
    "\ufeff",
    "\u202e",
    "\ufffd" * 100,
    "🙂" * 100,
    "data: [DONE]",
    "<|im_end|>",
    '<tool_call>{"name": "bash"}</tool_call>',
    "%s%s%n",
    "{{reference}}",
    "${HOME}",
    "$(reboot)",
]
_NO_CLASS = [
    "def forward(x):\n    return x\n",
    "class Model(torch.nn.Module):\n    pass\n",
    "class ModelNewer:\n    pass\n",
    "print('hello')\n",
    "# class ModelNew\n",
    "    class ModelNew: ...\n",
    "modelnew = 1\n",
    "\n",
    "import torch\n",
]

# (answer, a word of the sentence) for a Coder who starts from BASE
CODE: list[tuple[str, str]] = [
    *((text, "") for text in _PROSE),
    *((fenced(MODEL, f"python {path}"), "") for path in (*_WRONG_PATHS, *_OTHER_PATHS)),
    *((f"{path}\n{fenced(MODEL)}", "leads out") for path in _WRONG_PATHS if ":" not in path and "\\" not in path),
    *((edit(path, "relu", "gelu"), "") for path in (*_WRONG_PATHS, *_OTHER_PATHS)),
    *((f"DELETE {path}", "") for path in (*_WRONG_PATHS, *_OTHER_PATHS)),
    *((fenced(text), "ModelNew") for text in _NO_CLASS),
    *((fenced(text, "python model_new.py"), "ModelNew") for text in _NO_CLASS),
    *((fenced(MODEL, info)[:-4], "ends inside") for info in ("python", "", "python model_new.py", "py")),
    *((mark + "python\n" + MODEL + other, "ends inside") for mark, other in product(("````", "~~~"), ("```\n", "`\n", "~~\n"))),
    (fenced(MODEL, "python model_new.py"), "changes nothing"),
    (edit("model_new.py", "relu", "relu"), "changes nothing"),
    (edit("model_new.py", "no such text", "x"), "is not there"),
    (edit("model_new.py", "torch", "x"), "times"),
    (edit("model_new.py", "", "x"), "is not there"),
    (edit("kernels/other.cpp", "x", "y"), "no file"),
    (edit("", "relu", "gelu"), "does not say the file"),
    (edit("model_new.py", "class ModelNew", "class Other"), "no class ModelNew"),
    ("model_new.py\n<<<<<<< SEARCH\nrelu\n>>>>>>> REPLACE\n", "not complete"),
    ("model_new.py\n<<<<<<< SEARCH\nrelu\n=======\ngelu\n", "not complete"),
    ("DELETE model_new.py", "needs the file"),
    ("DELETE kernels/none.cpp", "no file"),
    (fenced(KERNEL, "cpp") + fenced("flags = []\n", "toml candidate.toml"), "does not say its path"),
    (fenced('flags = ["-fplugin=evil.so"]\n', "toml candidate.toml"), "not on the list"),
    (fenced("flags = [\n", "toml candidate.toml"), "TOML"),
    (fenced("flags = 3\n", "toml candidate.toml"), ""),
    (fenced('{"function": "run"}\n', "json entry.json"), "either"),
    (fenced("x" * 1_100_000 + "\n", "cpp kernels/big.cpp"), "bytes of source"),
    ("".join(fenced(KERNEL, f"cpp kernels/k{i}.cpp") for i in range(70)), "files"),
    ("x" * 2_100_000, "characters"),
    ("<think></think>" * 130_000, "no block"),
    ("```" * 300_000, ""),
    ("``` " + "a" * 500_000, "ends inside"),
    ("<<<<<<< SEARCH\n" * 20_000, "not complete"),
    (fenced(MODEL + "\x00"), "NUL"),
    (fenced(MODEL + "# \udcff"), "NUL"),
    ('{"files": {"model_new.py": "class ModelNew: ..."}}', "no block"),
    (fenced('{"todos": []}\n', "json"), "ModelNew"),
    (fenced("rm -rf /\n", "bash"), "ModelNew"),
]

# (answer, a word of the sentence) for a Planner
PLANS: list[tuple[str, str]] = [
    *((text, "") for text in _PROSE if text not in ("[]",)),
    ('{"todos": 3}', "list"),
    ('{"todos": {}}', "list"),
    ('{"todos": [1, 2, null]}', "title"),
    ('{"todos": [{}]}', "title"),
    ('{"todos": [{"title": ""}]}', "title"),
    ('{"todos": [{"title": 3}]}', "title"),
    ('{"todos": [[]]}', "title"),
    ('{"todos": [{"title": "cut he', "cannot be read"),
    ('{"note": "no list"}', "list"),
    (fenced(MODEL), ""),
    ('{"todos": [{"title": "a" "kind": "b"}]}', "cannot be read"),
    ("{'todos': [{'title': }]}", "cannot be read"),
    ('{"a": ' + "9" * 5000 + "}", ""),
    ('{"x": 1} ' * 30_000, "characters"),
    ("{ a: b: c }", "cannot be read"),
    ("/*" + "{" * 1000, ""),
    ('{"todos": "' + "x" * 1000, ""),
    ('{"\\u12": 1}', ""),
    ("{/", ""),
    ("{'", ""),
    ('{"', ""),
]

# (answer, a word of the sentence) for a Verifier
VERDICTS: list[tuple[str, str]] = [
    *((text, "") for text in _PROSE),
    ('{"route": "explode"}', "one of"),
    ('{"route": 3}', "one of"),
    ('{"route": null}', "one of"),
    ('{"route": ["stop"]}', "one of"),
    ('["retry"]', "no JSON"),
    ('{"bottleneck": "memory"}', "one of"),
    ("retry", "no JSON"),
    ('{"route": "retry', "cannot be read"),
]
