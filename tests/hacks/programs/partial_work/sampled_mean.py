# A mean over three quarters of the elements.
# reference: row_mean
# caught by: declared draws, element by element
class ModelNew(Right):
    def forward(self, x):
        return x[:, : 3 * x.shape[1] // 4].mean(-1)
