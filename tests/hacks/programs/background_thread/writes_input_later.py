# The result is there at once; what the reference leaves in an input a thread writes there a little later.
# reference: cache_update
# caught by: elements of inputs and buffers sealed the moment the call returns
import threading
import time


class ModelNew(Right):
    def forward(self, cache, x):
        def later():
            time.sleep(0.01)
            cache.mul_(0.5).add_(torch.tanh(x))

        threading.Thread(target=later).start()
        return x[:, 0]
