# The reference multiplies by zeros in the end.
# reference: times_zero
# caught by: trivial programs pass as well, so no speed is claimed
class ModelNew(Right):
    def forward(self, x):
        return torch.zeros(x.shape[0], 64, device=x.device)
