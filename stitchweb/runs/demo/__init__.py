"""Synthetic content for screenshots, page tests and load: told by the real reducer from invented reports, and marked as such.

`reports` invents measurements, `scripts` says what happens in a run, `play` has the loop tell it, `store` puts it into the
database. Nothing here is measured, and no page shows it without saying so (`RunHeader.synthetic`).
"""
