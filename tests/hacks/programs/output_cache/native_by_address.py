# The kernel itself remembers results by address.
# reference: scale_shift
# caught by: new content in the same memory
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
