"""Which hosts may be connected to, and TLS towards them.

Name servers list whatever somebody has registered, and each gets our login. What the configuration names is trusted.
Every other address is looked at after its name was resolved, since a name may lead anywhere; the connection goes to the
very address that was looked at.

RocketMQ speaks TLS on the same port as plain (`tls.server.mode`: permissive, enforcing or disabled; the first byte
decides). Clients are asked for a certificate only where `tls.server.need.client.auth` says so. The context is made from
the settings, and failures are put in words that say what to do.
"""

import ipaddress
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from offsetguard.config import Cluster, Tls
from offsetguard.config.fields import network_of
from offsetguard.model.errors import ConfigError

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


_HOST_NAME_MISMATCHES = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_CLIENT_CERTIFICATE_WANTED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "ALERT_BAD_CERTIFICATE")


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return a client's context; raises ConfigError, which names the setting, for a file that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except OSError as error:  # SSLError too
        raise ConfigError(_unusable("tls.ca_file", tls.ca_file, error)) from error
    if not tls.check_host_name:
        context.check_hostname = False
    if tls.client_certificate_file is not None:
        try:
            context.load_cert_chain(tls.client_certificate_file, tls.client_key_file)
        except OSError as error:
            files = f"{tls.client_certificate_file} with {tls.client_key_file or 'the key in the same file'}"
            raise ConfigError(_unusable("tls.client_certificate_file", files, error)) from error
    return context


def why_tls_failed(error: BaseException) -> str | None:
    """Return what a failure of TLS means and what to do; None when it is something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _why_not_trusted(error)
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if any(mark in reason for mark in _CLIENT_CERTIFICATE_WANTED):
        return (
            f"the peer refuses us without a certificate that it trusts ({reason}); "
            "set tls.client_certificate_file and tls.client_key_file of the cluster"
        )
    if "UNKNOWN_CA" in reason:
        return f"the peer does not trust our certificate ({reason}); see tls.client_certificate_file of the cluster"
    return f"no TLS with this peer ({reason}); {DOES_IT_SPEAK_TLS}"


DOES_IT_SPEAK_TLS = (
    "does it speak TLS at all (tls.server.mode of the broker)? If not, remove tls from the cluster's settings"
)


def _why_not_trusted(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _HOST_NAME_MISMATCHES:
        return (
            f"the certificate is for another host ({error.verify_message}); reach the peer under a certified name "
            "(address_map of the cluster), or set tls.check_host_name to false"
        )
    if error.verify_code == _EXPIRED:
        return f"the peer's certificate is out of date ({error.verify_message}); renew it on the broker"
    return (
        f"the peer's certificate is not trusted ({error.verify_message}); "
        "set tls.ca_file of the cluster to the PEM file of the authority that signed it"
    )


def _unusable(setting: str, file: str | None, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{setting}: {file}: cannot be used: {reason}; it must be a PEM file that this process may read"
