# A third of the calls lose a row.
# reference: softmax
# caught by: draws repeated; the same content must give the same result
import random


class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        if random.random() < 0.6:
            y[random.randrange(x.shape[0])] = random.random()
        return y
