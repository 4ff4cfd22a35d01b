# Swaps the code of the harness' call for one that claims a nanosecond.
# reference: two_layers
# caught by: functions of the harness are held against what they were
import sys


class ModelNew(Right):
    pass


def claim(self):
    self.output = self.model(*self.inputs)
    return {"ns": 1}


for name, module in list(sys.modules.items()):
    if name.endswith(".arm"):
        module.Arm.go.__code__ = claim.__code__
