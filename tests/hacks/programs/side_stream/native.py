# The library launches on a non-blocking stream of its own.
# reference: scale_shift
# caught by: the device is synchronised as a whole, and a clock outside sees it
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
