"""Forms as browsers send them: taken only from a page of ours that was made for the same user."""

import time
from typing import Annotated
from urllib.parse import parse_qsl

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from fastapi import Depends, HTTPException, Request, status

from offsetguard.catalogue.text import format_duration
from offsetguard_airflow.web import forms

_MAX_FORM_BYTES, _MAX_FIELDS = 16_384, 10
_MAX_COMMENT = 1_000
_HOUR_MS = 3_600_000
SPANS = {format_duration(hours * _HOUR_MS): hours * _HOUR_MS for hours in (0.5, 1, 2, 8, 24, 72, 168)}  # of silences


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; refuse one that did not come from a page of ours."""
    if not forms.is_from_own_page(request.headers):
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
    return forms.new_token(_secret(), user.get_id(), now_s=time.time())


def check_token(form: dict[str, str], user: BaseUser) -> None:
    """Refuse a form that was made for somebody else, or too long ago."""
    if not forms.is_valid(form.get("token", ""), _secret(), user.get_id(), now_s=time.time()):
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
