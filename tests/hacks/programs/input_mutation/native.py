# A kernel that uses its input as scratch memory.
# reference: scale_shift
# caught by: state; inputs must end as the reference leaves them
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
