# Sets flags that torch offers to be set.
# reference: norm_gelu
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("highest")


class ModelNew(Right):
    pass
