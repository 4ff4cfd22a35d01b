"""What people show: publications (a verified candidate under a name and a version), collections, comparisons, leaderboards,
and links that let others see one publication. May import runs, programs, teams and core; beside review, never into it."""
