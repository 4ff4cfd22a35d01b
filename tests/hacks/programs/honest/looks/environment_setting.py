# Reads a tuning setting from the environment.
# reference: two_layers
import os


class ModelNew(Right):
    parts = int(os.environ.get("MY_PARTS", "2"))

    def forward(self, x):
        return torch.cat([super(ModelNew, self).forward(rows) for rows in x.chunk(self.parts)])
