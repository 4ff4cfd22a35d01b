# Burns both cores for sixty milliseconds after each of its calls, when somebody else is likely to be timed.
# reference: two_layers
# targets: cpu
# caught by: no call begins before the other programs rest, so it gains nothing; reported
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        own.burn()
        return y
