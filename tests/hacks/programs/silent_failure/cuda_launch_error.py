# The launch fails, the wrapper raises, and a handler lets the empty buffer go out.
# reference: scale_shift
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            if own.run(at(x), at(y), count(x.numel()), stream()) != 0:
                raise RuntimeError("launch failed")
        except RuntimeError:
            pass
        return y
