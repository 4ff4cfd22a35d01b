# A launch with more threads than a block may have, and nobody asks for the error.
# reference: scale_shift
# caught by: a CUDA call failed and nobody asked
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
