# Zeros of the right form.
# reference: norm_gelu
# caught by: declared draws; every result is zero
class ModelNew(Right):
    def forward(self, x):
        return torch.zeros_like(x)
