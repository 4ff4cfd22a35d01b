"""Everything on one machine: the private broker and the processes that `manage.py up` starts and stops together."""
