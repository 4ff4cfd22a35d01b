# Preallocated results through `out=`.
# reference: linear_relu
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        torch.addmm(self.linear.bias, x, self.linear.weight.t(), out=y)
        return torch.relu_(y)
