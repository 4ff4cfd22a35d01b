# Compiles text made at run time; right, and no faster.
# reference: norm_gelu
# caught by: it is right and timed like the rest; reported
TEXT = "def work(self, x):\n    return F.gelu(self.norm(x))\n"
MADE = {"F": F}
exec(compile(TEXT, "made", "exec"), MADE)


class ModelNew(Right):
    forward = MADE["work"]
