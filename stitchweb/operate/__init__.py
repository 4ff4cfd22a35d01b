"""For who runs the site: runners, queue, teams' use and quotas, measures for Prometheus, backup, restore and retention.

Reads everything below it. Its pages are for operators (`User.is_staff`) alone.
"""
