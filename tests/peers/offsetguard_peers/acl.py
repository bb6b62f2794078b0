"""Accounts of a cluster with access control: an administrator, one that may only read, and (4.x) one without rights.

4.x reads them from a file. 5.x is told the administrator in its configuration and keeps all others in a store of its
own, one per broker and not copied to slaves: `Admin.create_account` makes them, as `mqadmin createUser` and `createAcl`
would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

ADMIN_ACCESS_KEY, ADMIN_SECRET_KEY = "rocketmqadmin", "admin-secret-12345678"
READER_ACCESS_KEY, READER_SECRET_KEY = "rocketmqreader", "reader-secret-12345678"
NEWCOMER_ACCESS_KEY, NEWCOMER_SECRET_KEY = "rocketmqnewcomer", "newcomer-secret-12345678"

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
- accessKey: {NEWCOMER_ACCESS_KEY}
  secretKey: {NEWCOMER_SECRET_KEY}
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
    "initAuthenticationUser": json.dumps({"username": ADMIN_ACCESS_KEY, "password": ADMIN_SECRET_KEY}),
    # With these a slave asks its master; each broker has this account as well.
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN_ACCESS_KEY, "secretKey": ADMIN_SECRET_KEY}),
}

# All that collecting needs on 5.x, see the rights in docs/sources.md.
READER_GRANTS = {"Cluster:*": ("Get",), "Topic:*": ("Get", "Sub"), "Group:*": ("Get", "Sub")}


def broker_conf(version: str) -> dict[str, str]:
    """Return the settings of broker.conf that switch access control on."""
    return dict(_BROKER_CONF_5) if version.startswith("5.") else {"aclEnable": "true"}


def user(access_key: str, secret_key: str) -> dict[str, str]:
    """Return the body of AUTH_CREATE_USER (`UserInfo`) for an account that is no administrator."""
    return {"username": access_key, "password": secret_key, "userType": "Normal"}


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
    (conf_folder / "tools.yml").write_text(f"accessKey: {ADMIN_ACCESS_KEY}\nsecretKey: {ADMIN_SECRET_KEY}\n")
