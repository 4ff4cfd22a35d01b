# Looks for leftovers in a larger block than the result's.
# reference: norm_gelu
# caught by: memory is poisoned before each call
class ModelNew(Right):
    def forward(self, x):
        return torch.empty(4 * x.numel(), device=x.device)[: x.numel()].view(x.shape)
