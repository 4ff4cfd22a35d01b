"""docs/settings.md, made from the readers themselves: the site's and the runners'."""

from __future__ import annotations

import inspect

from gpu_runner import config
from stitchweb.settings import env

HEAD = """# Settings

All settings come from the environment; none has to be set. A value that cannot be understood stops the start with a sentence.
This page is written by `manage.py settings_table --write` from the code that reads them, and a test compares the two.

## The site

Read in `stitchweb/settings.py` by the web process, the agent worker, the sweeper and every `manage.py` command.

"""

RUNNERS = """
## Runners, and the hands alone

Read in `gpu_runner/config.py` by runners and by `python -m gpu_runner` and `python -m agents`. A runner that `manage.py up`
starts gets these, the locale and the search paths, and nothing of the site's.

"""


def page() -> str:
    """The whole page."""
    return HEAD + env.table() + RUNNERS + runner_table() + "\n"


def runner_table() -> str:
    """The table in the docstring of `gpu_runner.config`."""
    doc = inspect.getdoc(config) or ""
    return "\n".join(line for line in doc.splitlines() if line.startswith("|"))
