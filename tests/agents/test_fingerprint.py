"""What counts as the same program: names of variables, comments and layout do not, everything else does."""

from __future__ import annotations

import time

import pytest

from agents.fingerprint import fingerprint
from tests.agents.model_answers import CODE

MODEL = '''import torch


class ModelNew(torch.nn.Module):
    """Adds one."""

    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))  # as the reference has it

    def forward(self, x):
        y = torch.relu(x) * self.scale
        return y + 1
'''
KERNEL = """#include <cmath>
#define STEP 4
extern "C" void run(const float* x, float* out, long n) {
    // one after the other
    for (long i = 0; i < n; ++i) {
        float value = x[i] * 2.0f;
        out[i] = expf(value) + sum.first;
    }
}
"""


def same(path: str, one: str, other: str) -> bool:
    assert one != other
    return fingerprint({path: one}) == fingerprint({path: other})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    y = torch.relu(x) * self.scale\n        return y + 1",
            "    total = torch.relu(x) * self.scale\n        return total + 1",
        ),
        ("(self, x):\n        y = torch.relu(x)", "(self, given):\n        y = torch.relu(given)"),
        ("  # as the reference has it", ""),
        ('    """Adds one."""\n\n', ""),
        ("\n\n\nclass", "\n\n# ---\nclass"),
        ("torch.ones(size))", "torch.ones(\n            size\n        ))"),
    ],
)
def test_a_module_with_other_names_comments_and_spaces_is_the_same(old: str, new: str) -> None:
    assert MODEL.count(old) == 1
    assert same("model_new.py", MODEL, MODEL.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.relu(x)", "torch.gelu(x)"),
        ("self.scale = torch", "self.weight = torch"),
        ("y + 1", "y + 2"),
        ("y + 1", "x + 1"),
        ("ModelNew", "Model"),
        ("torch.ones(size)", "torch.ones(size, dtype=torch.float64)"),
        ("        return y + 1", "        if True:\n            return y + 1"),
    ],
)
def test_a_module_that_does_something_else_is_another(old: str, new: str) -> None:
    assert not same("model_new.py", MODEL, MODEL.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value", "v"),
        ("(const float* x,", "(const float *input,\n  "),
        ("    // one after the other\n", "    /* all\n of them */\n"),
        ("        float", "float"),
    ],
)
def test_a_kernel_with_other_names_comments_and_spaces_is_the_same(old: str, new: str) -> None:
    other = KERNEL.replace(old, new).replace("x[i]", "input[i]" if "input" in new else "x[i]")
    assert same("kernels/k.cpp", KERNEL, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("expf", "sinf"),
        ("2.0f", "3.0f"),
        ("run(", "go("),
        ("++i", "--i"),
        ("sum.first", "sum.second"),
        ("STEP 4", "STEP 8"),
        ("#define STEP 4\n", "#define STEP 4 "),
        ("float value = x[i]", "float value = out[i]"),
        ("const float* x", "const double* x"),
    ],
)
def test_a_kernel_that_does_something_else_is_another(old: str, new: str) -> None:
    assert not same("kernels/k.cpp", KERNEL, KERNEL.replace(old, new))


def test_source_inside_of_a_module_is_read_like_a_file() -> None:
    module = MODEL + f'\nSOURCE = """{KERNEL}"""\n'
    assert same("model_new.py", module, module.replace("value", "v").replace("// one after the other", "// together"))
    assert not same("model_new.py", module, module.replace("expf", "sinf"))


def test_a_manifest_counts_by_what_it_says() -> None:
    assert same("candidate.toml", 'flags = ["-O3"] # fast\n', 'flags = [ "-O3" ]\n')
    assert not same("candidate.toml", 'flags = ["-O3"]\n', 'flags = ["-O2"]\n')


def test_another_path_is_another_program() -> None:
    assert fingerprint({"kernels/a.cpp": KERNEL}) != fingerprint({"kernels/b.cpp": KERNEL})


def test_no_text_makes_it_fail_or_take_long() -> None:
    hard = ["/*" * 150_000, '"\\' * 150_000, 'R"(' * 100_000, "const " * 60_000 + "x", "(" * 300_000, "a" * 400_000, "\udcff\0"]
    began = time.perf_counter()
    for text in [*hard, *(text for text, _ in CODE)]:
        for path in ("model_new.py", "kernels/k.cu", "candidate.toml"):
            fingerprint({path: text})
    assert time.perf_counter() - began < 60  # milliseconds each; what is quadratic takes hours
