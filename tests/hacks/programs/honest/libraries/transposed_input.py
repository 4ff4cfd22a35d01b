# Reads a transposed input as it lies.
# reference: transposed_sum
class ModelNew(Right):
    def forward(self, x, y):
        return torch.add(y, x.transpose(0, 1))
