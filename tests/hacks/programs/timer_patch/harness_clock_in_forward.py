# As before, but only from within a call.
# reference: linear_relu
# caught by: functions of the harness are held against what they were
import sys


class ModelNew(Right):
    def forward(self, x):
        for name, module in list(sys.modules.items()):
            if name.endswith(".arm"):
                module._clock = lambda: 0
        return super().forward(x)
