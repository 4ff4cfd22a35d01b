"""The pages about runs, and those that show programs with their runs. Thin: fetch through access, render, or call a service."""
