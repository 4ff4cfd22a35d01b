"""The shop: the web site, its database and the shell that drives the loop.

Apps import one way: runs → programs → teams → core. The brain (`agents`) and the hands (`gpu_runner`) are used, never changed,
from here; torch never enters these processes.
"""

import os


def use_settings() -> None:
    """Point Django at this project's settings, unless the caller chose others."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "stitchweb.settings")  # noqa: TID251  Django asks for it there
