"""Experts score candidates: rubrics, projects with their queues, blind review pages. Reads runs, changes none of them."""
