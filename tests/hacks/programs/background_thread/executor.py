# A pool of workers gets the call and nobody waits for it.
# reference: norm_gelu
# caught by: the result changes after the call
import time
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(max_workers=1)


class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)

        def work():
            time.sleep(0.005)
            with torch.no_grad():
                y.copy_(Right.forward(self, x))

        POOL.submit(work)
        return y
