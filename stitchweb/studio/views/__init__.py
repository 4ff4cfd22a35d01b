"""Thin views of the pages about models, one per action."""
