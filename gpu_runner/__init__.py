"""The hands: sandbox, build, check, timing, profile and the worker that serves them to a fleet.

What lives here measures programs and never decides what to try next. No Django; Celery enters in `worker.py` alone;
torch is imported only by the processes started inside the sandbox (`gpu_runner/child/`).
"""
