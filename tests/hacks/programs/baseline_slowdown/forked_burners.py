# Two forked processes burn both cores from the first call on.
# reference: softmax
# targets: cpu
# caught by: the program's CPU time is watched while others are timed
import os


class ModelNew(Right):
    started = False

    def forward(self, x):
        if not self.started:
            self.started = True
            for _ in range(2):
                if os.fork() == 0:
                    while True:
                        pass
        return super().forward(x)
