# A kernel that writes the same number everywhere.
# reference: scale_shift
# caught by: declared draws; every result is one constant
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.fill(at(y), count(y.numel()))
        return y
