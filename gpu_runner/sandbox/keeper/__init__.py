"""The process between a runner and one sandbox: it starts the boundary, waits, and outlives whatever was in it.

Trusted and small, with an empty environment and nothing but the standard library: started as `python -I -S -c …`, it never
imports the rest of this project. `main` is the keeper, `become` what its child does before it is the program, `landlock` the
kernel's interface that the fallback boundary is made of.
"""
