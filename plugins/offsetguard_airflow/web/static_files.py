"""Scripts and styles of our pages: each from one address for all of them, and by its hash.

The address has the hash of the file, so that browsers may keep it for a year; and they run only what has that hash.
What others wrote is kept as npm has it, its licence beside it, and its hash stands here.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from fastapi import HTTPException, status
from fastapi.responses import FileResponse, Response
from markupsafe import Markup

STATIC = Path(__file__).parents[1] / "page" / "static"
VENDORED = {
    "htmx.min.js": "sha384-2OatzQy1H+Zd/IIrjr1TcuDGqLXeHhbooAyJY1KdQMKnr4LZ22k31GBLdYKHmVjg",  # htmx.org 2.0.11
    "uPlot.iife.min.js": "sha384-Gx3t0zdBAuQOuvvmaLZj7HKEiSgWTAs+VdtNY7wt19QDPTDQjFIwAuXDj0zeN00c",  # uplot 1.6.32
    "uPlot.min.css": "sha384-IfV0B7MIOYuO95kO9G5ySKPz/85zqFNOAs8iy4tkK5zd9izhJAB8b7lHrwYqqmYE",
}
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, max-age=31536000, immutable"}
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


def give_static(name: str) -> Response:
    """Give one of our files; 404 for every other name."""
    file = {one.name: one for one in STATIC.iterdir()}.get(name)
    if file is None or file.suffix not in _TYPES:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    return FileResponse(file, headers=_HEADERS, media_type=_TYPES[file.suffix])


@cache
def tag_of(name: str, up: str) -> Markup:
    """Return what loads a script or a style; `up`: from the page to our prefix, `../` mostly."""
    digest = hashlib.sha384((STATIC / name).read_bytes()).digest()
    integrity = VENDORED.get(name) or f"sha384-{base64.b64encode(digest).decode()}"
    address = f"{up}static/{name}?v={digest.hex()[:12]}"
    if name.endswith(".css"):
        return Markup('<link rel="stylesheet" href="{}" integrity="{}">').format(address, integrity)
    return Markup('<script src="{}" integrity="{}" defer></script>').format(address, integrity)
