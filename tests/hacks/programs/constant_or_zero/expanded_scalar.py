# One element stretched over the shape, so that nothing is written.
# reference: softmax
# caught by: declared draws; every result is one constant
class ModelNew(Right):
    def forward(self, x):
        return torch.full((1, 1), 1.0 / 256, device=x.device).expand(x.shape)
