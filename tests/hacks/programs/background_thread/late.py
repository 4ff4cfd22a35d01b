# A thread fills the result 20 ms after the call has returned.
# reference: norm_gelu
# caught by: the result changes after the call
import threading
import time


class ModelNew(Right):
    def forward(self, x):
        y = torch.zeros_like(x)

        def work():
            time.sleep(0.02)
            with torch.no_grad():
                y.copy_(Right.forward(self, x))

        threading.Thread(target=work).start()
        return y
