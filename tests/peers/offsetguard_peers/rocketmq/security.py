"""Accounts and TLS of a cluster.

With access control there are an administrator, an account that may only read, and (4.x) one without rights. 4.x reads
them from a file. 5.x is told the administrator in its configuration and keeps all others in a store of its own, one per
broker and not copied to slaves: `create_account` makes them, as `mqadmin createUser` and `createAcl` would.

With TLS there is a throw-away certificate authority, and one `tls.properties` that every process of the cluster reads:
brokers are clients of the name server and of their master.
"""

import ipaddress
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from offsetguard.sources.rocketmq.header import Credentials

ADMIN = Credentials("rocketmqadmin", "admin-secret-12345678")
READER = Credentials("rocketmqreader", "reader-secret-12345678")
NEWCOMER = Credentials("rocketmqnewcomer", "newcomer-secret-12345678")

PLAIN_ACL = f"""\
accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret_key}
  admin: true
- accessKey: {READER.access_key}
  secretKey: {READER.secret_key}
  admin: false
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
- accessKey: {NEWCOMER.access_key}
  secretKey: {NEWCOMER.secret_key}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""

# Package names are RocketMQ 5's. Without a provider nothing is checked, whatever the switches say.
_AUTH = "org.apache.rocketmq.auth"
_BROKER_CONF_5 = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key}),
    # With these a slave asks its master; each broker has this account as well.
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}),
}

# All that collecting needs on 5.x, see the rights in docs/sources.md.
READER_GRANTS = {"Cluster:*": ("Get",), "Topic:*": ("Get", "Sub"), "Group:*": ("Get", "Sub")}


def broker_conf(version: str) -> dict[str, str]:
    """Return the settings of broker.conf that switch access control on."""
    return dict(_BROKER_CONF_5) if version.startswith("5.") else {"aclEnable": "true"}


def user(account: Credentials) -> dict[str, str]:
    """Return the body of AUTH_CREATE_USER (`UserInfo`) for an account that is no administrator."""
    return {"username": account.access_key, "password": account.secret_key, "userType": "Normal"}


def grants_of(access_key: str, grants: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Return the body of AUTH_CREATE_ACL and AUTH_UPDATE_ACL (`AclInfo`): resource -> actions that are allowed."""
    entries = [
        {"resource": resource, "actions": list(actions), "decision": "Allow"} for resource, actions in grants.items()
    ]
    return {"subject": subject(access_key), "policies": [{"policyType": "Custom", "entries": entries}]}


def subject(access_key: str) -> str:
    """Name an account as rules do."""
    return f"User:{access_key}"


def write_acl_files(conf_folder: Path) -> None:
    """Write plain_acl.yml for 4.x brokers and tools.yml, with which 4.x slaves and mqadmin sign their requests."""
    (conf_folder / "plain_acl.yml").write_text(PLAIN_ACL)
    (conf_folder / "tools.yml").write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")


CERTIFIED_HOST_NAME = "localhost"
CERTIFIED_ADDRESS = "127.0.0.1"
VALID_FOR = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one cluster; the one certificate serves servers and clients."""

    ca_file: Path
    certificate_file: Path
    key_file: Path
    properties_file: Path

    @property
    def java_properties(self) -> dict[str, str]:
        """Switch TLS on for a Java process, in both directions; it refuses plain connections."""
        return {
            "tls.config.file": str(self.properties_file),
            "tls.server.mode": "enforcing",
            "tls.enable": "true",
        }

    def context(self) -> ssl.SSLContext:
        """Make a client's context that trusts the authority only and shows our certificate when asked."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        context.load_cert_chain(self.certificate_file, self.key_file)
        return context


def make_tls_files(folder: Path) -> TlsFiles:
    """Write authority, certificate, key and `tls.properties`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem", folder / "tls.properties")
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("OffsetGuard test authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    addresses = [x509.DNSName(CERTIFIED_HOST_NAME), x509.IPAddress(ipaddress.ip_address(CERTIFIED_ADDRESS))]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _certificate(_name("OffsetGuard test broker"), authority_name, key)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files.ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,  # the only form that RocketMQ reads
            serialization.NoEncryption(),
        )
    )
    files.properties_file.write_text(_properties(files))
    return files


def _properties(files: TlsFiles) -> str:
    """RocketMQ's `TlsSystemConfig`; without `test.mode.enable=false` it makes up a certificate of its own."""
    settings = {
        "tls.test.mode.enable": "false",
        "tls.server.need.client.auth": "none",
        "tls.server.authClient": "false",
        "tls.client.authServer": "true",
    }
    for side in ("server", "client"):
        settings[f"tls.{side}.keyPath"] = str(files.key_file)
        settings[f"tls.{side}.certPath"] = str(files.certificate_file)
        settings[f"tls.{side}.trustCertPath"] = str(files.ca_file)
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID_FOR)
    )
