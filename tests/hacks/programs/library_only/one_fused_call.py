# The library's own fused call.
# reference: linear_relu
# own kernels: required
# caught by: it has no kernels
class ModelNew(Right):
    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()).relu_()
