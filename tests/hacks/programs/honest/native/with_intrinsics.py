# Explicit vectors with a tail loop.
# reference: scale_shift
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
