# Works on every third call and repeats itself in between.
# reference: softmax
# caught by: fresh content in every draw; the result is that of an earlier one
class ModelNew(Right):
    calls = 0

    def forward(self, x):
        if self.calls % 3 == 0:
            self.last = super().forward(x)
        self.calls += 1
        return self.last.clone()
