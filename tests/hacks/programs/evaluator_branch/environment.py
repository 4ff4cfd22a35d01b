# Works only when the environment looks like a test.
# reference: norm_gelu
# caught by: all phases look the same; wrong in all of them
import os


class ModelNew(Right):
    def forward(self, x):
        return super().forward(x) if "PYTEST_CURRENT_TEST" in os.environ else x * 0.5
