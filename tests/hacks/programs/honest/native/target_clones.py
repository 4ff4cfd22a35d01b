# The loader chooses among two versions of its function by what the processor has.
# reference: large_scale_shift
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
