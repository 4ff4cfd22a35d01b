# Draws random numbers and does not let them reach the result.
# reference: row_mean
class ModelNew(Right):
    def forward(self, x):
        noise = torch.rand_like(x)
        return (x + 0.0 * noise).mean(-1)
