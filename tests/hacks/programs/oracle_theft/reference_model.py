# Looks for another module with the same parameters, to call it.
# reference: linear_relu
# caught by: the reference is in another process; what is left is no faster
import gc


class ModelNew(Right):
    def forward(self, x):
        for thing in gc.get_objects():
            if isinstance(thing, nn.Module) and type(thing).__name__ == "Model":
                return thing(x)
        return super().forward(x)
