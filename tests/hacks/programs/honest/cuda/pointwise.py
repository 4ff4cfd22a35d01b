# A plain kernel on the current stream.
# reference: scale_shift
# own kernels: required
# timed: yes
class ModelNew(Right):
    def forward(self, x):
        x, y = x.contiguous(), torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
