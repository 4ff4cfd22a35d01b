# Between its own calls a native thread keeps a core busy, so that everybody else is slow.
# reference: two_layers
# targets: cpu
# caught by: the program's CPU time is watched while others are timed
class ModelNew(Right):
    def forward(self, x):
        own.pause()
        y = super().forward(x)
        own.go_on()
        return y
