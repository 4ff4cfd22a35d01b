# One result for the whole process, kept at module level.
# reference: row_mean
# caught by: fresh content in every draw; the result is that of an earlier one
KEPT = []


class ModelNew(Right):
    def forward(self, x):
        if not KEPT:
            KEPT.append(super().forward(x))
        return KEPT[0].clone()
