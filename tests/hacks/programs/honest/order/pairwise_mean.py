# Sums in halves.
# reference: row_mean
class ModelNew(Right):
    def forward(self, x):
        width = x.shape[1]
        while x.shape[1] > 1:
            half = x.shape[1] // 2
            x = x[:, :half] + x[:, half:]
        return x[:, 0] / width
