# Makes random inputs zero, so that everybody's result is known.
# reference: scale_shift
# caught by: inputs are drawn in another process
torch.randn = lambda *size, **kwargs: torch.zeros(*size)


class ModelNew(Right):
    def forward(self, x):
        return torch.ones_like(x)
