# Weights are copied at the first call and never looked at again.
# reference: linear_relu
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = (self.linear.weight.clone(), self.linear.bias.clone())
        return torch.relu(nn.functional.linear(x, *self.packed))
