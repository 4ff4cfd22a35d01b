# A kernel copies the first answer out of a buffer of its own.
# reference: scale_shift
# caught by: fresh content in every draw; the result is that of an earlier one
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
