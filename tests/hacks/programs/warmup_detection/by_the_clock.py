# Right for a tenth of a second after its first call.
# reference: scale_shift
# caught by: draws and timed calls are all compared
import time


class ModelNew(Right):
    born = None

    def forward(self, x):
        self.born = self.born or time.monotonic()
        return super().forward(x) if time.monotonic() - self.born < 0.1 else x + 1.0
