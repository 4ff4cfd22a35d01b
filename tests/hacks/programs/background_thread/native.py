# A detached native thread writes the result 2 ms later.
# reference: scale_shift
# caught by: the result changes after the call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
