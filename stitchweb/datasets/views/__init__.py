"""Pages of datasets: thin functions, one per action."""
