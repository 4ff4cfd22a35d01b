"""Pages of reviews, one function per action."""
