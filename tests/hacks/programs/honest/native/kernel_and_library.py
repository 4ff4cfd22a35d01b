# The library's product and a kernel of its own for the rest.
# reference: linear_relu
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        y = x @ self.linear.weight.t()
        own.finish(at(y), at(self.linear.bias), count(y.shape[0]), count(y.shape[1]))
        return y
