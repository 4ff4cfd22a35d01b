# A fixed table from a seeded generator, checked and then unused.
# reference: scale_shift
class ModelNew(Right):
    def __init__(self):
        super().__init__()
        table = torch.rand(16, generator=torch.Generator().manual_seed(0))
        if table.numel() != 16:
            raise ValueError("no table")
