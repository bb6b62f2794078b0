"""Headers of our pages.

Pages hold names that came from brokers: they run no script, load nothing from elsewhere, send nothing anywhere but,
where they have forms, to us, and are framed by nobody but Airflow itself.
"""

from __future__ import annotations

_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "form-action {form_action}; base-uri 'none'; frame-ancestors 'self'"
)
_OF_ALL = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}

PAGE_HEADERS = {
    "Content-Security-Policy": _POLICY.format(form_action="'none'"),
    **_OF_ALL,
    "Cache-Control": "private, no-cache",  # the newest run replaces the page in place
}
FORM_HEADERS = {
    "Content-Security-Policy": _POLICY.format(form_action="'self'"),
    **_OF_ALL,
    "Cache-Control": "private, no-store",
}
