# Skips elements that look too small to matter.
# reference: scale_shift
# caught by: declared draws, element by element
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
