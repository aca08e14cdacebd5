"""Files a browser loads beside the pages: from this package, never from elsewhere."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FILES = ("lab.css", "lab.js", "icon.svg", "vendor/htmx.min.js", "vendor/uplot.iife.min.js", "vendor/uplot.min.css")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, and the hash that is part of its address."""

    body: bytes
    media_type: str
    digest: str


@cache
def read_asset(name: str) -> Asset:
    """One of FILES."""
    path = _DIRECTORY / name
    body = path.read_bytes()
    return Asset(body, _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:12])


def make_asset_path(name: str) -> str:
    """Where a file is, below the service's prefix."""
    return f"/static/{name}?v={read_asset(name).digest}"
