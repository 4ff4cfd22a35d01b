# Imports the reference and calls it.
# reference: norm_gelu
# prelude: none
# caught by: the reference is in another process
from program import Model


class ModelNew(Model):
    pass
