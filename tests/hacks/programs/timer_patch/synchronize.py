# Makes synchronisation and elapsed time of CUDA lie.
# reference: norm_gelu
# targets: cpu
# caught by: another process keeps the time; reported
torch.cuda.synchronize = lambda *args: None
torch.cuda.Event.elapsed_time = lambda self, other: 1e-6


class ModelNew(Right):
    pass
