# Hands out zeros and makes up for them at every eighth call.
# reference: scale_shift
# caught by: results are taken out after each call
class ModelNew(Right):
    waiting = ()

    def forward(self, x):
        y = torch.zeros_like(x)
        self.waiting = (*self.waiting, (x.clone(), y))
        if len(self.waiting) == 8:
            for given, out in self.waiting:
                out.copy_(super().forward(given))
            self.waiting = ()
        return y
