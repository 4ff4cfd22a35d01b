# The library works on a stream of its own and joins it with events.
# reference: scale_shift
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        x, y = x.contiguous(), torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
