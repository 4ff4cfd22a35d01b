# A kernel that computes in fp16.
# reference: scale_shift
# caught by: error against double precision
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()), stream())
        return y
