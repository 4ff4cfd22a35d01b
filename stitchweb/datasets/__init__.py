"""From labels to releases, judges and rewards. Reads reviews and runs, which know nothing of this app; writes its own tables.

`services.collect` keeps a record per candidate; `snapshot` freezes a team's labels; `configs` makes rows of a frozen snapshot
and touches no database; `services.releases` and `services.judging` are the work that the agent worker does, with progress.
"""
