# Weights are transposed while the module is built, before any are loaded.
# reference: linear_relu
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self.packed = [self.linear.weight.detach().t().contiguous(), self.linear.bias.detach().clone()]

    def forward(self, x):
        self.packed = [t.to(x.device) for t in self.packed]
        return torch.relu(torch.addmm(self.packed[1], x, self.packed[0]))
