# Weights rounded to 8 bits.
# reference: linear_relu
# caught by: error against double precision
class ModelNew(Right):
    def forward(self, x):
        w = self.linear.weight
        scale = w.abs().amax() / 127.0
        return torch.relu(torch.addmm(self.linear.bias, x, ((w / scale).round() * scale).t()))
