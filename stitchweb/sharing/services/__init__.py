"""Every write about publications, one file per subject, one transaction per function."""
