# Softmax in one pass over blocks with a running maximum.
# reference: softmax
class ModelNew(Right):
    def forward(self, x):
        largest = torch.full_like(x[:, :1], float("-inf"))
        total = torch.zeros_like(largest)
        for block in x.split(64, dim=1):
            new = torch.maximum(largest, block.amax(-1, keepdim=True))
            total = total * torch.exp(largest - new) + torch.exp(block - new).sum(-1, keepdim=True)
            largest = new
        return torch.exp(x - largest) / total
