# Collects garbage in the constructor.
# reference: norm_gelu
import gc


class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        gc.collect()
