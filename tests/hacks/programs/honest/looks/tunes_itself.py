# Times two ways during its first calls and keeps the faster one; both are right.
# reference: linear_relu
import time


class ModelNew(Right):
    chosen = None

    def forward(self, x):
        ways = (lambda: Right.forward(self, x), lambda: torch.relu(torch.addmm(self.linear.bias, x, self.linear.weight.t())))
        if self.chosen is None:
            times = []
            for way in ways:
                start = time.perf_counter()
                way()
                times.append(time.perf_counter() - start)
            self.chosen = times.index(min(times))
        return ways[self.chosen]()
