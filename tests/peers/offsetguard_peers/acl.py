"""Accounts of a 4.x cluster with access control: an administrator and one that may only read."""

from __future__ import annotations

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


def write_acl_files(conf_folder: Path) -> None:
    """Write plain_acl.yml for the brokers and tools.yml, with which slaves and mqadmin sign their requests."""
    (conf_folder / "plain_acl.yml").write_text(PLAIN_ACL)
    (conf_folder / "tools.yml").write_text(f"accessKey: {ADMIN_ACCESS_KEY}\nsecretKey: {ADMIN_SECRET_KEY}\n")
