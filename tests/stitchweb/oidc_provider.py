"""A small OpenID provider: one client, one person who always agrees. The tests' other side of signing in by another site."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa


@contextmanager
def provider(email: str, client: str = "stitch", secret: str = "shared") -> Iterator[str]:
    """Its address, while it answers. Everybody who comes is the person with this address."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    codes: dict[str, dict[str, list[str]]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = parse_qs(parts.query)
            if parts.path == "/.well-known/openid-configuration":
                self.tell(_configuration(base))
            elif parts.path == "/authorize":
                assert asked["client_id"] == [client]
                code = f"code-{len(codes)}"
                codes[code] = asked
                self.send_response(302)
                self.send_header(
                    "Location", f"{asked['redirect_uri'][0]}?{urlencode({'code': code, 'state': asked['state'][0]})}"
                )
                self.end_headers()
            elif parts.path == "/jwks":
                jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
                self.tell({"keys": [jwk | {"kid": "one", "use": "sig", "alg": "RS256"}]})
            else:  # userinfo
                self.tell(_person(email))

        def do_POST(self) -> None:
            sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            basic = base64.b64decode(self.headers.get("Authorization", "Basic Og==").split()[1]).decode()
            known = f"{client}:{secret}" == basic or (sent.get("client_id"), sent.get("client_secret")) == ([client], [secret])
            asked = codes.pop(sent["code"][0], None)
            if asked is not None:
                proof = hashlib.sha256(sent["code_verifier"][0].encode()).digest()
                known &= asked["code_challenge"] == [base64.urlsafe_b64encode(proof).decode().rstrip("=")]
            if not known or asked is None:
                self.tell({"error": "invalid_grant"}, 400)
                return
            now = int(time.time())
            claims = _person(email) | {"iss": base, "aud": client, "iat": now, "exp": now + 300}
            claims |= {"nonce": asked["nonce"][0]} if "nonce" in asked else {}
            token = jwt.encode(claims, key, "RS256", {"kid": "one"})
            self.tell({"access_token": "a", "token_type": "Bearer", "expires_in": 300, "id_token": token})

        def tell(self, what: dict[str, Any], status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(what).encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        base = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield base
        server.shutdown()


def _person(email: str) -> dict[str, Any]:
    return {"sub": "person-1", "email": email, "email_verified": True, "name": "Somebody"}


def _configuration(base: str) -> dict[str, Any]:
    return {
        "issuer": base, "authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token",
        "userinfo_endpoint": f"{base}/userinfo", "jwks_uri": f"{base}/jwks", "response_types_supported": ["code"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    }  # fmt: skip
