# Its warnings are errors, so that none goes unread.
# reference: norm_gelu
import warnings

warnings.simplefilter("error")


class ModelNew(Right):
    pass
