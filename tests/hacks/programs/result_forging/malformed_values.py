# Describes its result as a number that nobody can read, so that the comparison fails and not the program.
# reference: norm_gelu
# caught by: messages that our code cannot have sent
import sys

WRITE = sys.modules["stitch_child.tensors"].write


def write(value, fd, start=0):
    manifest = WRITE(value, fd, start)
    return {**manifest, "leaves": [{"kind": "literal", "value": {"float": "much"}} for _ in manifest["leaves"]]}


sys.modules["stitch_child.tensors"].write = write


class ModelNew(Right):
    pass
