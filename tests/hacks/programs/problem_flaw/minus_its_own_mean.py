# A mean over one element is subtracted from it.
# reference: centred_twice
# caught by: trivial programs pass as well, so no speed is claimed
class ModelNew(Right):
    def forward(self, x):
        return torch.zeros(x.shape[0], 1, device=x.device)
