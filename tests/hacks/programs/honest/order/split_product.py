# A product as the sum of two halves.
# reference: two_layers
class ModelNew(Right):
    def forward(self, x):
        h = torch.relu(self.first(x))
        w, half = self.second.weight, h.shape[1] // 2
        return h[:, :half] @ w[:, :half].t() + h[:, half:] @ w[:, half:].t() + self.second.bias
