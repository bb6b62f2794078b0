"""What protects our pages: their headers, and whether a form was sent by the person in front of one of them.

Pages hold names that came from brokers: they run no script but, where they have forms, our own files, load nothing from
elsewhere, send nothing anywhere but, where they have forms, to us, and are framed by nobody but Airflow itself.

Airflow's login cookie is SameSite=Lax, so that other sites' forms come without it. Two more things must hold, each of
which would do: the browser says that the request comes from our own origin, and the form holds a token that only a page
made for this user has. The token is an HMAC of user and expiry by Airflow's own secret: all API servers know it, and
nothing has to be kept.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from fastapi import Depends, HTTPException, Request, status

from offsetguard.catalogue.text import format_duration

_POLICY = (
    "default-src 'none'; script-src {own}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src {own}; form-action {own}; base-uri 'none'; frame-ancestors 'self'"
)
_OF_ALL = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}

PAGE_HEADERS = {
    "Content-Security-Policy": _POLICY.format(own="'none'"),
    **_OF_ALL,
    "Cache-Control": "private, no-cache",  # the newest run replaces the page in place
}
FORM_HEADERS = {
    "Content-Security-Policy": _POLICY.format(own="'self'"),
    **_OF_ALL,
    "Cache-Control": "private, no-store",
}
VALID_S = 12 * 3600
_PURPOSE = b"offsetguard forms"


def new_token(secret: str, user_id: str, *, now_s: float) -> str:
    """Return a token for a user's forms; good for VALID_S."""
    expires_s = int(now_s) + VALID_S
    return f"{expires_s}.{_seal(secret, user_id, expires_s)}"


def is_valid(token: str, secret: str, user_id: str, *, now_s: float) -> bool:
    """Whether a token was made for this user and has not expired."""
    expires, _, seal = token.partition(".")
    if not (expires.isascii() and expires.isdecimal() and len(expires) <= 12):
        return False
    is_ours = hmac.compare_digest(seal.encode(errors="replace"), _seal(secret, user_id, int(expires)).encode())
    return is_ours and int(expires) > now_s


def is_from_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that its own page of this origin sends the request; `headers`: names in lower case.

    Browsers send Sec-Fetch-Site over HTTPS and to localhost, and Origin with every POST. What sends neither is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = headers.get("origin"), headers.get("host")
    try:
        return origin is not None and host is not None and urlsplit(origin).netloc == host != ""
    except ValueError:
        return False


def _seal(secret: str, user_id: str, expires_s: int) -> str:
    key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)
    return hmac.new(key, f"{expires_s}\x1f{user_id}".encode(errors="replace"), hashlib.sha256).hexdigest()


_MAX_FORM_BYTES, _MAX_FIELDS = 16_384, 10
_MAX_COMMENT = 1_000
_HOUR_MS = 3_600_000
SPANS = {format_duration(hours * _HOUR_MS): hours * _HOUR_MS for hours in (0.5, 1, 2, 8, 24, 72, 168)}  # of silences


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; refuse one that did not come from a page of ours."""
    if not is_from_own_page(request.headers):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "forms are taken from OffsetGuard's own pages only")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, "the form is too large")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise not_ours() from None
    return dict(fields)


Form = Annotated[dict[str, str], Depends(form_of)]


def token_for(user: BaseUser) -> str:
    """Return the token of the forms on a page that is made for a user."""
    return new_token(_secret(), user.get_id(), now_s=time.time())


def check_token(form: dict[str, str], user: BaseUser) -> None:
    """Refuse a form that was made for somebody else, or too long ago."""
    if not is_valid(form.get("token", ""), _secret(), user.get_id(), now_s=time.time()):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "the form is too old: open its page again")


def comment_of(form: dict[str, str]) -> str:
    """Return what its user says."""
    return form.get("comment", "")[:_MAX_COMMENT].strip()


def silence_number(form: dict[str, str]) -> int:
    """Return the silence that a form is to end."""
    number = form.get("number", "")
    if not (number.isascii() and number.isdecimal()):
        raise not_ours()
    return int(number[:18])


def not_ours() -> HTTPException:
    """Return the refusal of what no page of ours sends."""
    return HTTPException(status.HTTP_400_BAD_REQUEST, "that is no form of ours")


def _secret() -> str:
    return conf.get_mandatory_value("api", "secret_key")
