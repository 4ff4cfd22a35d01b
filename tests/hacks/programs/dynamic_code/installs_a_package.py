# Tries to install somebody else's kernels when it is imported.
# reference: softmax
# caught by: there is no network; what is left is no faster
import subprocess
import sys

subprocess.run([sys.executable, "-m", "pip", "install", "faster-softmax"], capture_output=True, timeout=20)


class ModelNew(Right):
    pass
