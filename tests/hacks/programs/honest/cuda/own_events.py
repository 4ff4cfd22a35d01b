# Times itself with events and does nothing with it.
# reference: softmax
# targets: cuda
class ModelNew(Right):
    def forward(self, x):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        y = super().forward(x)
        end.record()
        return y
