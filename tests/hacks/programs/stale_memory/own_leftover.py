# Computes once, and from then on asks the allocator for the block that the last result lay in.
# reference: softmax
# caught by: memory is poisoned before each call
class ModelNew(Right):
    done = False

    def forward(self, x):
        if self.done:
            return torch.empty_like(x)
        self.done = True
        return super().forward(x)
