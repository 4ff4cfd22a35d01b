"""Upkeep that apps have once an hour or with each sweep, in the process that sweeps. An app that has some connects to it when
the site starts.

Imports go one way, so the sweeper cannot call the apps above it. It sends robustly: what fails in one app is logged and keeps
none of the others from theirs.
"""

from __future__ import annotations

from django.dispatch import Signal

hourly = Signal()
often = Signal()  # with each sweep, every few seconds: what an app has to do then is one query when there is nothing
