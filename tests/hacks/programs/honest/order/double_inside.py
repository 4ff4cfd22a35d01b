# More precision than asked for.
# reference: norm_gelu
class ModelNew(Right):
    def forward(self, x):
        y = F.layer_norm(x.double(), x.shape[-1:], self.norm.weight.double(), self.norm.bias.double(), self.norm.eps)
        return F.gelu(y).float()
