# Answers with a count that is no number.
# reference: norm_gelu
# caught by: messages that our code cannot have sent
import sys

COLLECT = sys.modules["stitch_child.arm"].Arm.collect


def collect(self, payload, fd):
    reply = COLLECT(self, payload, fd)
    reply["facts"]["late"] = float("inf")
    return reply


sys.modules["stitch_child.arm"].Arm.collect = collect


class ModelNew(Right):
    pass
