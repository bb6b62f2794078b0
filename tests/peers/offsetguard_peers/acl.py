"""Accounts of a cluster with access control: an administrator and one that may only read.

4.x reads them from a file. 5.x is told the administrator in its configuration and keeps all others in a store of its
own, one per broker and not copied to slaves: `Admin.create_reader` makes them, as `mqadmin createUser` and `createAcl`
would.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ADMIN_ACCESS_KEY, ADMIN_SECRET_KEY = "rocketmqadmin", "admin-secret-12345678"
READER_ACCESS_KEY, READER_SECRET_KEY = "rocketmqreader", "reader-secret-12345678"

PLAIN_ACL = f"""\
accounts:
- accessKey: {ADMIN_ACCESS_KEY}
  secretKey: {ADMIN_SECRET_KEY}
  admin: true
- accessKey: {READER_ACCESS_KEY}
  secretKey: {READER_SECRET_KEY}
  admin: false
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
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
    "initAuthenticationUser": json.dumps({"username": ADMIN_ACCESS_KEY, "password": ADMIN_SECRET_KEY}),
    # With these a slave asks its master; each broker has this account as well.
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN_ACCESS_KEY, "secretKey": ADMIN_SECRET_KEY}),
}

READER_USER = {"username": READER_ACCESS_KEY, "password": READER_SECRET_KEY, "userType": "Normal"}
READER_SUBJECT = f"User:{READER_ACCESS_KEY}"
# All that collecting needs on 5.x; `Sub` on topics and groups is for reading messages (OFFSET_MOVED_EVENT).
READER_GRANTS = {"Cluster:*": ("Get",), "Topic:*": ("Get", "List", "Sub"), "Group:*": ("Get", "List", "Sub")}


def broker_conf(version: str) -> dict[str, str]:
    """Return the settings of broker.conf that switch access control on."""
    return dict(_BROKER_CONF_5) if version.startswith("5.") else {"aclEnable": "true"}


def reader_acl() -> dict[str, object]:
    """Return the body of AUTH_CREATE_ACL (`AclInfo`) with what the reader may do on 5.x."""
    entries = [
        {"resource": resource, "actions": list(actions), "decision": "Allow"}
        for resource, actions in READER_GRANTS.items()
    ]
    return {"subject": READER_SUBJECT, "policies": [{"policyType": "Custom", "entries": entries}]}


def write_acl_files(conf_folder: Path) -> None:
    """Write plain_acl.yml for 4.x brokers and tools.yml, with which 4.x slaves and mqadmin sign their requests."""
    (conf_folder / "plain_acl.yml").write_text(PLAIN_ACL)
    (conf_folder / "tools.yml").write_text(f"accessKey: {ADMIN_ACCESS_KEY}\nsecretKey: {ADMIN_SECRET_KEY}\n")
