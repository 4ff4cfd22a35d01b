"""The processes between a runner and its sandboxes: what sandboxes are forked from, and one for each that outlives what is in it.

Trusted and small, with a sandbox's environment; nothing but the standard library and what a sandbox would import itself. It never
imports the rest of this project. `template` is the process that waits, `main` the keeper that it forks, `become` what the keeper's
child does before it is the program or bubblewrap, `enter` how another one enters what bubblewrap made, `stay` how a fork turns
into the program, `landlock` the kernel's interface that the fallback boundary is made of.
"""
