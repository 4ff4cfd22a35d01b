# A softmax over one column is one, whatever the input.
# reference: one_column_softmax
# caught by: trivial programs pass as well, so no speed is claimed
class ModelNew(Right):
    def forward(self, x):
        return torch.ones(x.shape[0], 1, device=x.device)
