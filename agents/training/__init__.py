"""Training of Coders and judges: recipes, the live reward service, tasks made of operators, and what starts all of it.

`service` is a process of its own that checks, times and prices candidates; `recipes` are checked files; `driver` starts and
ends the processes of a run. `learning` is what runs in a trainer's process: the one place of `agents` that imports torch,
transformers and trl; nothing imports it, it is started with `python -m`. No Django comes in.
"""
