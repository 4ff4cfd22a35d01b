# Weights are copied at the first call and never looked at again.
# reference: norm_gelu
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = (self.norm.weight.clone(), self.norm.bias.clone())
        return F.gelu(F.layer_norm(x, x.shape[-1:], *self.packed))
