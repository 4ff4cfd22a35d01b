# Measures itself and does nothing with it.
# reference: softmax
import time


class ModelNew(Right):
    seconds = 0.0

    def forward(self, x):
        start = time.perf_counter()
        y = super().forward(x)
        self.seconds += time.perf_counter() - start
        return y
