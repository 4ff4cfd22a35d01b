# Defines names that mean something to the reference.
# reference: norm_gelu
N = 1
batch_size = 7


def get_inputs():
    return []


class ModelNew(Right):
    pass
