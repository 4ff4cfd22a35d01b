# Right for the first calls, then a cheaper function.
# reference: norm_gelu
# caught by: results of timed calls are compared
class ModelNew(Right):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) if self.calls < 14 else torch.relu(x)
