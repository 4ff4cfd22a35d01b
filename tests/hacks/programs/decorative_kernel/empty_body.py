# A kernel without a body, called with all the right arguments.
# reference: linear_relu
# own kernels: required
# caught by: the result is the same when its kernels do nothing
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        own.fused_linear_relu(at(x), at(self.linear.weight), at(self.linear.bias), at(y), count(x.shape[0]))
        return y
