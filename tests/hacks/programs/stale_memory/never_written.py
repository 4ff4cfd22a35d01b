# Memory that nobody wrote, in the hope that somebody's answer still lies there.
# reference: norm_gelu
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        return torch.empty_like(x)
