# Prints and logs what it does.
# reference: row_mean
import logging
import sys

logging.basicConfig(level=logging.INFO)


class ModelNew(Right):
    def forward(self, x):
        logging.info("rows %d", x.shape[0])
        print("a line", file=sys.stderr)
        return super().forward(x)
