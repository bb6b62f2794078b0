"""Which hosts may be connected to: name servers list whatever somebody has registered, and each gets our login.

What the configuration names is trusted. Every other address is looked at after its name was resolved, since a name may
lead anywhere; the connection goes to the very address that was looked at.
"""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from offsetguard.config import Cluster
from offsetguard.config.fields import network_of

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
# Where clouds give credentials to whoever asks, beside the link-local 169.254.169.254: AWS, Alibaba, Azure, Oracle
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be connected to: `configured` addresses, and those of `allowed`; none of these = all but a few."""

    configured: Collection[str] = field(default_factory=frozenset)  # "host:port"
    allowed: Collection[str] = ()  # networks, addresses, host names with wildcards

    @classmethod
    def of(cls, cluster: Cluster) -> "Reach":
        """Return what holds for the brokers of a cluster."""
        named = frozenset((*cluster.name_servers, *cluster.address_map.values(), *cluster.proxies))
        return cls(named, cluster.allowed_addresses)

    def refusal(self, address: str, host: str, resolved: str) -> str | None:
        """Return why not; None = it may be connected to. `host`: of `address`; `resolved`: its IP address."""
        if address in self.configured:
            return None
        found = _plain(ipaddress.ip_address(resolved))
        if any(found in network for one in self.allowed if (network := network_of(one)) is not None):
            return None
        if found.is_link_local or found.is_unspecified or found.is_multicast or found in _METADATA:
            return f"{found} is no broker's address (link-local, unspecified, multicast, or of a cloud's metadata)"
        if not self.allowed or any(fnmatchcase(host.lower(), one.lower()) for one in self.allowed):
            return None
        return f"{found} is not among allowed_addresses"


def _plain(found: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 one stands for."""
    return getattr(found, "ipv4_mapped", None) or found
