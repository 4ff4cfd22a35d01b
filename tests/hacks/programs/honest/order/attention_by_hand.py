# Attention from its parts.
# reference: attention
class ModelNew(Right):
    def forward(self, q, k, v):
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        return torch.softmax(scores, -1) @ v
