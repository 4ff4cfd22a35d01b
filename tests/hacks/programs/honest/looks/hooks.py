# A forward hook that counts calls.
# reference: linear_relu
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self.calls = 0
        self.linear.register_forward_hook(self._count)

    def _count(self, module, inputs, output):
        self.calls += 1
