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
from collections.abc import Mapping
from urllib.parse import urlsplit

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
