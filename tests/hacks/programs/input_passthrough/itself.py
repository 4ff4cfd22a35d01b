# The input itself.
# reference: norm_gelu
# caught by: declared draws; the result is the input
class ModelNew(Right):
    def forward(self, x):
        return x
