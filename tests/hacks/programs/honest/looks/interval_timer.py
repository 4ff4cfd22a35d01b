# A library that counts time with a signal of its own, twenty times a second.
# reference: scale_shift
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
