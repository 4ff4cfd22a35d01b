# Widens 16-bit inputs and rounds once at the end.
# reference: half_softmax
class ModelNew(Right):
    def forward(self, x):
        return torch.softmax(x.float(), -1).to(x.dtype)
