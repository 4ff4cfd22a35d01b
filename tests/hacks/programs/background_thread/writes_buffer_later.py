# A thread puts a new buffer in the place of the old one when the call has returned.
# reference: kept_sum
# caught by: elements of inputs and buffers sealed the moment the call returns
import threading
import time


class ModelNew(Right):
    def forward(self, x):
        def later():
            time.sleep(0.01)
            self.kept = self.kept * 0.5 + torch.tanh(x)

        threading.Thread(target=later).start()
        return x.sum(1)
