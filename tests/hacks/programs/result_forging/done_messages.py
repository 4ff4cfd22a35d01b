# Writes a finished answer into every socket it can find.
# reference: norm_gelu
# caught by: an answer that our code cannot have sent
import json
import os
import socket


class ModelNew(Right):
    def forward(self, x):
        for fd in range(3, 1024):
            try:
                sock = socket.socket(fileno=os.dup(fd))
                sock.send(json.dumps({"kind": "done", "payload": {"ns": 1, "verdict": "verified"}}).encode())
            except OSError:
                pass
        return torch.zeros_like(x)
