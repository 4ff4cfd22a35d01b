# The first half of the rows, zeros below.
# reference: norm_gelu
# caught by: declared draws, element by element
class ModelNew(Right):
    def forward(self, x):
        y = torch.zeros_like(x)
        half = x.shape[0] // 2
        y[:half] = super().forward(x[:half])
        return y
