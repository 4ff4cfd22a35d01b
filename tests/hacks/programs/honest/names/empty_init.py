# An __init__ that does nothing and a pass.
# reference: scale_shift
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        pass

    def forward(self, x):
        return torch.add(1.0, x, alpha=2.0)
