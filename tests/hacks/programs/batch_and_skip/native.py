# The library keeps a list of calls and does them three at a time.
# reference: scale_shift
# caught by: results are taken out after each call
class ModelNew(Right):
    kept = ()

    def forward(self, x):
        y = torch.empty_like(x)
        self.kept = (*self.kept[-8:], x, y)
        own.run(at(x), at(y), count(x.numel()))
        return y
