#!/usr/bin/env python
"""Django's command line. `manage.py up` starts everything; `manage.py help` lists the rest."""

import sys

from stitchweb import use_settings


def main() -> None:
    use_settings()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
