"""Which servers a shared site may ask: public addresses, and inner ones that whoever runs it allowed.

A name is looked up once, each of its addresses is judged, and the connection goes to one that was: a second look-up cannot lead
elsewhere. Redirects, and proxies named in the environment, are not followed.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str, int], Sequence[str]]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Beyond what the address library calls not global: local NAT64, forms that carry an IPv4 address, segment routing, addresses
# that clouds give to servers of their own.
_INNER = tuple(
    ipaddress.ip_network(text)
    for text in ("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "5f00::/16", "fec0::/10", "192.0.0.0/24", "168.63.129.16/32")
)


class Forbidden(Exception):
    """A server that may not be asked. The message is a sentence with a way out."""


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system finds them. OSError when it has none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True)
class Guard:
    """`allowed`: names (`models.lan`), names with a port (`localhost:8080`), addresses and networks (`10.1.0.0/16`). A name
    that is allowed may lead anywhere; whoever allows it answers for it. `setting`: what the way out of a refusal names."""

    allowed: tuple[str, ...] = ()
    setting: str = ""
    look_up: Lookup = look_up

    def addresses(self, url: str) -> tuple[str, ...]:
        """Where the server of a base URL may be asked, one network query. Forbidden when it may not, or has no address."""
        parts = urlsplit(url)
        try:
            host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
            found = [ipaddress.ip_address(text.partition("%")[0]) for text in self.look_up(host, port)]
        except (OSError, UnicodeError, ValueError):
            raise Forbidden(f"There is no server named {parts.hostname or url!r}: its name leads to no address.") from None
        shown = f"[{host}]" if ":" in host else host
        named = {host, shown, f"{shown}:{port}"}
        if not named.intersection(word.lower() for word in self.allowed):
            for address in found:
                if not (_is_public(address) or self._in_network(address)):
                    leads = "" if host == str(address) else f"leads to {address}, which "
                    raise Forbidden(
                        f"{shown} {leads}is no public address. A site asks inner servers only where whoever "
                        f"runs it allowed them{f': {self.setting}={shown}:{port}' if self.setting else ''}."
                    )
        if not found:
            raise Forbidden(f"There is no server named {shown}: its name leads to no address.")
        return tuple(dict.fromkeys(str(address) for address in found))

    def _in_network(self, address: Address) -> bool:
        inner = _inside(address)
        for word in self.allowed:
            try:
                network = ipaddress.ip_network(word, strict=False)
            except ValueError:
                continue
            if address in network or inner in network:
                return True
        return False

    def client(self, url: str, timeout_s: float) -> httpx2.Client:
        """An HTTP client that reaches the server of `url` at the addresses judged now, and nothing else. Forbidden as above;
        whoever takes it closes it."""
        return _client(urlsplit(url).hostname or "", self.addresses(url), timeout_s)


def _inside(address: Address) -> Address:
    """The IPv4 address that an IPv6 one carries, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def _is_public(address: Address) -> bool:
    inner = _inside(address)
    # Of these two kinds only the IPv4 address inside says where they lead; the others lead through a relay as well.
    carrier = isinstance(address, ipaddress.IPv6Address) and (address in _NAT64 or address.ipv4_mapped is not None)
    if any(one in network for one in (address, inner) for network in _INNER):
        return False
    return all(one.is_global and not one.is_multicast for one in ((inner,) if carrier else (address, inner)))


def _client(host: str, addresses: Sequence[str], timeout_s: float) -> httpx2.Client:
    import httpx2  # what the client of OpenAI's protocol speaks HTTP with; as late as that one

    class Pinned(httpx2.HTTPTransport):
        def handle_request(self, request: Any) -> Any:
            if request.url.host != host.lower():
                raise httpx2.ConnectError(f"{request.url.host} was not judged, so it is not asked", request=request)
            secure = {"sni_hostname": host} if request.url.scheme == "https" else {}
            request.extensions = {**request.extensions, **secure}
            whole = request.url
            for last, address in enumerate(addresses, 1 - len(addresses)):
                request.url = whole.copy_with(host=address)
                try:
                    return super().handle_request(request)
                except httpx2.ConnectError:
                    if not last:
                        raise
                finally:
                    request.url = whole
            raise AssertionError("a guard gives at least one address")

    return httpx2.Client(transport=Pinned(), timeout=timeout_s, follow_redirects=False, trust_env=False)
