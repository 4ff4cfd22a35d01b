# The counter is in the library.
# reference: scale_shift
# caught by: results of timed calls are compared
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
