# Names with the words of a harness in them.
# reference: softmax
expected = None


def benchmark(x):
    return torch.softmax(x, -1)


class ModelNew(Right):
    def forward(self, x):
        timer = benchmark
        return timer(x)
