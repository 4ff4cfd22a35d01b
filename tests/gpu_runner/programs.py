"""A small reference and candidates for it, each the text of a `model_new.py`. Cheats, and honest programs that look like them:
tests/hacks."""

from __future__ import annotations

from gpu_runner.hacks.gallery import default_folder

REFERENCE = (default_folder() / "references" / "norm_gelu.py").read_text()
PLAIN = REFERENCE.replace("class Model(", "class ModelNew(")


def _model(result: str) -> str:
    return PLAIN.replace("F.gelu(self.norm(x))", result)


ZEROS = _model("torch.zeros_like(x)")

# name: (program, what the verdict must be). Mistakes that are no cheats.
MISTAKES: dict[str, tuple[str, str]] = {
    "a shape that broadcasts": (_model("F.gelu(self.norm(x))[:1]"), "incorrect"),
    "another dtype": (_model("F.gelu(self.norm(x)).double()"), "incorrect"),
    "another structure": (_model("(F.gelu(self.norm(x)), x)"), "incorrect"),
    "no weights at all": (PLAIN.replace("self.norm = nn.LayerNorm(width)", "pass").replace("self.norm(x)", "x"), "incorrect"),
    "its scale and shift forgotten": (_model("F.gelu(F.layer_norm(x, x.shape[-1:]))"), "incorrect"),
    "its scale cleared after use": (_model("(F.gelu(self.norm(x)), self.norm.weight.data.zero_())[0]"), "incorrect"),
    "an exception": (_model("x.no_such_method()"), "crashed"),
    "a syntax error": ("class ModelNew(:\n", "crashed"),
}
