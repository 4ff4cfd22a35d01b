# Does everything five times.
# reference: norm_gelu
# timed: yes
class ModelNew(Right):
    def forward(self, x):
        for _ in range(5):
            y = super().forward(x)
        return y
