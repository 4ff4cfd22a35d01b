# A forked process writes the result into memory that both share.
# reference: scale_shift
# targets: cpu
# caught by: the result changes after the call
import mmap
import os
import time


class ModelNew(Right):
    def forward(self, x):
        shared = mmap.mmap(-1, 4 * x.numel())
        y = torch.frombuffer(shared, dtype=torch.float32).view(x.shape)
        if os.fork() == 0:
            time.sleep(0.02)
            values = memoryview(bytearray(x.numpy().tobytes())).cast("f")
            out = memoryview(shared).cast("f")
            for i in range(len(values)):
                out[i] = values[i] * 2.0 + 1.0
            os._exit(0)
        return y
