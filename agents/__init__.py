"""The brain: the loop, its state, the engineers and what they know. No Django, no Celery, no torch.

May import `gpu_runner` (contracts and, for the headless commands, the hands themselves); is imported by `stitchweb`.
"""
