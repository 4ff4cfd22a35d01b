# Leaves the last few columns unwritten.
# reference: softmax
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        y[:, :-8] = super().forward(x)[:, :-8]
        return y
