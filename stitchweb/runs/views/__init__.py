"""The pages about runs, and the pages that show programs together with their runs. Thin: fetch through access, render, or call a service."""
