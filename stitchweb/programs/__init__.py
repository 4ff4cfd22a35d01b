"""What people bring: programs, their immutable revisions, suites of them, and the checks at upload."""
