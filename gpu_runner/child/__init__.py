"""The code that runs inside the sandbox. It is mounted there alone, as a package of its own.

May import the standard library, torch and its own siblings (`from . import name`), nothing else of this project: the hands'
parent side does not exist in there. Nothing in here is trusted by the parent. `main` is the bootstrap; it gives each message
to the module that is called like its role, which has

    def handle(kind: str, payload: dict, fds: list[int], emit: Callable[[dict], None]) -> dict

The working folder is the job's own, with the job's files in it. `fds` belong to the handler. `emit(payload)` sends progress.
What it returns is the answer; an exception is answered as an error with its traceback.
"""
