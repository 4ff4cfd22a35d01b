# Norms are built with scale one and shift zero, so a program that skips both looks right.
# reference: norm_gelu
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    def forward(self, x):
        return F.gelu(F.layer_norm(x, x.shape[-1:]))
