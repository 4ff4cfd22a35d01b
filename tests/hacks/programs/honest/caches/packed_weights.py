# Weights are packed and packed again when they change.
# reference: linear_relu
class ModelNew(Right):
    packed = (-1, None)

    def forward(self, x):
        version = self.linear.weight._version
        if self.packed[0] != version:
            self.packed = (version, self.linear.weight.t().contiguous())
        return torch.relu(torch.addmm(self.linear.bias, x, self.packed[1]))
