# One block per row, with shared memory.
# reference: softmax
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        x, y = x.contiguous(), torch.empty_like(x)
        own.run(at(x), at(y), count(x.shape[0]), count(x.shape[1]), stream())
        return y
