# The mean of the true results everywhere.
# reference: norm_gelu
# caught by: declared draws; every result is one constant
class ModelNew(Right):
    def forward(self, x):
        return torch.full_like(x, 0.28)
