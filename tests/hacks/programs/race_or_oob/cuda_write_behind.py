# The last thread writes one element too many.
# reference: scale_shift
# caught by: guards around every input
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
