# Sixteen bits of mantissa: its error hides below the tolerance.
# reference: product_of_uniform
# caught by: the error in units of eager's own; no speed is claimed at another precision
class ModelNew(Right):
    def forward(self, x):
        return (x.view(torch.int32) & -256).view(torch.float32) @ self.weight
