# Walks up the callers for variables that look like an answer.
# reference: softmax
# caught by: no expected result is in this process
import sys


class ModelNew(Right):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            for value in frame.f_locals.values():
                if isinstance(value, torch.Tensor) and value.shape == x.shape and value is not x:
                    return value.clone()
            frame = frame.f_back
        return x * 0.004
