# A path for small batches and one for large ones.
# reference: linear_relu
class ModelNew(Right):
    def forward(self, x):
        if x.shape[0] <= 16:
            return torch.relu(x @ self.linear.weight.t() + self.linear.bias)
        return super().forward(x)
