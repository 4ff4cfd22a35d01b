# A Python thread that counts whenever its own call does not run.
# reference: linear_relu
# targets: cpu
# caught by: the program's CPU time is watched while others are timed
import threading

IDLE = threading.Event()


def burn():
    while True:
        IDLE.wait()
        sum(range(2000))


class ModelNew(Right):
    started = False

    def forward(self, x):
        IDLE.clear()
        y = super().forward(x)
        if not self.started:
            self.started = True
            threading.Thread(target=burn, daemon=True).start()
        IDLE.set()
        return y
