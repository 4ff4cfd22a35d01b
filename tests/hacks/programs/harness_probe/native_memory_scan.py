# The same scan in the library.
# reference: scale_shift
# caught by: nothing secret is there; reported
class ModelNew(Right):
    def forward(self, x):
        own.scan()
        return super().forward(x)
