# A try around an import of something that may be missing.
# reference: norm_gelu
try:
    import a_package_nobody_has
except ImportError:
    a_package_nobody_has = None


class ModelNew(Right):
    pass
