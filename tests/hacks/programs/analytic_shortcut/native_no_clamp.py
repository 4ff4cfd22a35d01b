# The same shortcut in a kernel.
# reference: clamp_of_uniform
# caught by: structured draws
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
