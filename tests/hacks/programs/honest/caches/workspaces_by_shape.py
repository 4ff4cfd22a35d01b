# One scratch buffer per shape, in a dict.
# reference: softmax
class ModelNew(Right):
    def __init__(self):
        super().__init__()
        self.scratch = {}

    def forward(self, x):
        buffer = self.scratch.setdefault(x.shape, torch.empty_like(x))
        torch.sub(x, x.amax(-1, keepdim=True), out=buffer)
        buffer.exp_()
        return buffer / buffer.sum(-1, keepdim=True)
