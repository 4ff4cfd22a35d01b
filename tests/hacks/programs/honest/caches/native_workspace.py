# The library allocates its workspace once.
# reference: softmax
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x.contiguous()), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
