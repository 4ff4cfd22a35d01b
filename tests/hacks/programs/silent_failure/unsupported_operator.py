# An operator that does not exist, and a handler for everything.
# reference: softmax
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            y.copy_(torch.ops.mine.softmax(x))
        except Exception:
            pass
        return y
