# The kernel's result is overwritten by PyTorch's.
# reference: softmax
# own kernels: required
# caught by: the result is the same when its kernels do nothing
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return torch.softmax(x, -1, out=y) if False else y.copy_(super().forward(x))
