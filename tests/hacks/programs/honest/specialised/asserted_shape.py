# Made for one width, and says so.
# reference: norm_gelu
class ModelNew(Right):
    def forward(self, x):
        if x.shape[-1] != 256:
            raise ValueError("made for rows of 256")
        return super().forward(x)
