"""The processes between a runner and its sandboxes: one that all are forked from, and one for each that outlives what is in it.

Trusted and small, with a sandbox's environment and nothing but the standard library and what a sandbox would import itself: the
rest of this project is never imported. `template` is the process that waits, `main` the keeper that it forks, `become` what the
keeper's child does before it is the program or bubblewrap, `enter` how another one enters what bubblewrap made, `stay` how a
fork turns into the program, `landlock` the kernel's interface that the fallback boundary is made of.
"""
