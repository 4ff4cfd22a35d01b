# Right but for noise.
# reference: norm_gelu
# caught by: the same content must give the same result
class ModelNew(Right):
    def forward(self, x):
        return super().forward(x) + 1e-2 * torch.randn_like(x)
