# Right for the first second and a half of its life.
# reference: scale_shift
# caught by: draws and timed calls are all compared
import time

BORN = time.monotonic()


class ModelNew(Right):
    def forward(self, x):
        return super().forward(x) if time.monotonic() - BORN < 0.5 else x + 1.0
