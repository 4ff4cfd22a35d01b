"""Pages over HTTP, the live stream over WebSocket."""

from __future__ import annotations

import gc

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

from stitchweb import use_settings

use_settings()
http = get_asgi_application()  # before the consumers, which need the apps loaded

from stitchweb.core.origins import same_origin  # noqa: E402
from stitchweb.runs.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": http,
        # A page of another site can open a socket with the visitor's cookies; the Origin tells them apart.
        "websocket": same_origin(URLRouter(websocket_urlpatterns)),
    }
)

# What is loaded by now stays. A full collection that walks through it stops every page and socket for a tenth of a second.
gc.collect()
gc.freeze()
