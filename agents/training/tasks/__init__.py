"""New references to train on: operators composed by a seed, then whatever is no good task filtered out with its cause.

`operators` is the catalogue, `compose` writes programs, `filters` says what is wrong with one, `command` does it for many. What
is generated runs in the sandbox alone, through the hands.
"""
