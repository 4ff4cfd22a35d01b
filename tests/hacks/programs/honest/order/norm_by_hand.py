# Another order of operations.
# reference: norm_gelu
class ModelNew(Right):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        spread = ((x - mean) ** 2).mean(-1, keepdim=True)
        y = (x - mean) * torch.rsqrt(spread + self.norm.eps) * self.norm.weight + self.norm.bias
        return 0.5 * y * (1.0 + torch.erf(y * 0.7071067811865476))
