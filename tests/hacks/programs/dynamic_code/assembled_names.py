# Pastes the names of what it calls.
# reference: scale_shift
# caught by: what it computes is wrong, however it is written
class ModelNew(Right):
    def forward(self, x):
        return eval("to" + "rch.re" + "lu(x)") * 2.0 + 1.0
