"""What there is to do with the gallery of cheats."""

from __future__ import annotations

from stitchweb.core.permissions import SIGNED_IN, Action, get

SEE = Action("gallery.see", "Read the hack gallery", SIGNED_IN)

ROUTES = {"gallery": get(SEE), "gallery-class": get(SEE)}
