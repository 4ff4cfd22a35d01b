# A kernel with the row length as a constant.
# reference: running_sum
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.shape[0]))
        return y
