"""Pages for operators, one file per subject."""
