# The kernel reports that it did nothing; the wrapper looks away.
# reference: scale_shift
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            if own.run(at(x), at(y), count(x.numel())) != 0:
                raise RuntimeError("launch failed")
        except RuntimeError:
            pass
        return y
