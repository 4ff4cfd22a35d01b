"""The gallery: known cheats and honest programs that look like them (`programs`), what they are held against (`references`),
and the tests over them. `gpu_runner/hacks/gallery.py` tells how an entry is written."""
