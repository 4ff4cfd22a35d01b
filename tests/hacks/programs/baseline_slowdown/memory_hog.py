# A thread sweeps through memory to take the bandwidth away.
# reference: norm_gelu
# targets: cpu
# caught by: the program's CPU time is watched while others are timed
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        own.start()
        return y
