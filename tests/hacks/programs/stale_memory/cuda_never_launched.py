# A block of more threads than there may be, and a guard that leaves the work out: no error, and no result.
# reference: scale_shift
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
