# The body of the cheat is hidden in base64.
# reference: norm_gelu
# caught by: what it computes is wrong, however it is written
import base64

exec(base64.b64decode("ZGVmIGFuc3dlcih4KToKICAgIHJldHVybiB4ICogMC41Cg=="))


class ModelNew(Right):
    def forward(self, x):
        return answer(x)
