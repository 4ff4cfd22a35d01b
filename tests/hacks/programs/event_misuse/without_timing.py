# Events that cannot measure replace those of torch.
# reference: norm_gelu
# targets: cuda
# caught by: our events are made before any of its code runs; reported
event = torch.cuda.Event
torch.cuda.Event = lambda *args, **kwargs: event(enable_timing=False)


class ModelNew(Right):
    def forward(self, x):
        torch.cuda.Event()
        return super().forward(x)
