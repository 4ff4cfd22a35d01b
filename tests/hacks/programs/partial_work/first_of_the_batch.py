# One row computed and repeated for the whole batch.
# reference: norm_gelu
# caught by: declared draws, element by element
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        y[4:] = 0.5
        return y
