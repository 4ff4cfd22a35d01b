# The first result of a shape is handed out for ever.
# reference: norm_gelu
# caught by: fresh content in every draw; the result is that of an earlier one
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self.known = {}

    def forward(self, x):
        if x.shape not in self.known:
            self.known[x.shape] = super().forward(x)
        return self.known[x.shape].clone()
