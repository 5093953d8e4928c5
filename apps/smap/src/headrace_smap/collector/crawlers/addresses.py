"""Which addresses may be fetched. A project is anybody's order, so its addresses must not reach what only we can reach.

A name is resolved here, once, and the connection is made to the very address that was checked: a name that changes its
mind between check and connection gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from headrace_smap.collector.tasks import CrawlFailed, CrawlLater

PORTS = {"http": 80, "https": 443}
_TRANSLATED = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class CheckedAddress:
    """A checked address: what was asked for, and where to connect."""

    parts: SplitResult
    host: str
    port: int
    address: str

    @property
    def origin(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc.lower()}"

    @property
    def url(self) -> str:
        """The same request to the checked address instead of the name."""
        numbers = f"[{self.address}]" if ":" in self.address else self.address
        return self.parts._replace(netloc=f"{numbers}:{self.port}", fragment="").geturl()


def checked_parts(url: str) -> tuple[SplitResult, str, int]:
    """The parts of an address that may be fetched at all, its host and its port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise CrawlFailed("the address cannot be understood") from None
    if parts.scheme not in PORTS:
        raise CrawlFailed(f"an address must begin with http:// or https://, not {parts.scheme[:20] or 'nothing'}")
    if not host or not url.isprintable() or " " in url:
        raise CrawlFailed("the address names no host")
    if "@" in parts.netloc:
        raise CrawlFailed("the address holds a user name: it is refused, because addresses are shown in reports")
    return parts, host, port or PORTS[parts.scheme]


async def checked_place(url: str, private: bool) -> CheckedAddress:
    """Resolve an address and refuse it if it leads to this machine or to a private network."""
    parts, host, port = checked_parts(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise CrawlLater(f"{host} cannot be resolved: {error}") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not private and not all(map(is_public, addresses)):
        # Neither where a name leads nor which address a redirect named: this is shown to whoever ordered the project.
        raise CrawlFailed("the address, or one that it redirects to, is not public (SMAP_CRAWL_PRIVATE=1 allows it)")
    # Many machines have an IPv6 address and no way to use it.
    return CheckedAddress(parts, host, port, min(addresses, key=lambda address: ip_address(address).version))


def is_public(address: str) -> bool:
    """Whether anybody on the Internet could reach it; an address inside another one is judged as well."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and (inner := _inside(ip)) is not None:
        return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


def _inside(ip: IPv6Address) -> IPv4Address | None:
    if ip in _TRANSLATED:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
