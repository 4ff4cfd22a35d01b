# Works on a stream of its own that nobody waits for.
# reference: two_layers
# targets: cuda
# caught by: the device is synchronised as a whole, and a clock outside sees it
class ModelNew(Right):
    other = None

    def forward(self, x):
        if self.other is None:
            self.other = torch.cuda.Stream()
        with torch.cuda.stream(self.other):
            return super().forward(x)
