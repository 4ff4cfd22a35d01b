# A trace of the reference.
# reference: softmax
# own kernels: required
# caught by: it has no kernels
class ModelNew(Right):
    traced = None

    def forward(self, x):
        if self.traced is None:
            self.traced = torch.jit.trace(lambda x: torch.softmax(x, -1), (x,))
        return self.traced(x)
