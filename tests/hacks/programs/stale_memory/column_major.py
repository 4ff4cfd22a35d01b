# Memory that nobody wrote, with other strides.
# reference: norm_gelu
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        return torch.empty_strided(x.shape, (1, x.shape[0]), device=x.device)
