# Collects four calls and does them in one.
# reference: norm_gelu
# caught by: results are taken out after each call
class ModelNew(Right):
    waiting = ()

    def forward(self, x):
        y = torch.empty_like(x)
        self.waiting = (*self.waiting, (x.clone(), y))
        if len(self.waiting) == 4:
            results = super().forward(torch.cat([x for x, _ in self.waiting]))
            for (_, out), result in zip(self.waiting, results.chunk(4), strict=True):
                out.copy_(result)
            self.waiting = ()
        return y
