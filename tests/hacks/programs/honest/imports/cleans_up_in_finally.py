# try and finally around the work.
# reference: scale_shift
class ModelNew(Right):
    depth = 0

    def forward(self, x):
        self.depth += 1
        try:
            return x.mul(2.0).add_(1.0)
        finally:
            self.depth -= 1
