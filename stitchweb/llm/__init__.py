"""A team's model services: providers with their sealed keys, models, who asks which by default, prompts of its own.

`vault` seals keys, `doors` hands one to the process that asks, at the moment of asking; nothing else opens the vault. The pages
about all this are in `studio`, which lies above the runs.
"""
