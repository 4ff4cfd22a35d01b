# Makes the functions slow that the reference calls.
# reference: linear_relu
# caught by: the reference is another process; reported
import time

relu = torch.relu
functional_relu = torch.nn.functional.relu


def slow(x):
    time.sleep(0.01)
    return relu(x)


torch.relu = slow


class ModelNew(Right):
    def forward(self, x):
        return relu(self.linear(x))
