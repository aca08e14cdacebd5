"""What a form posts."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import Request


async def read_form(request: Request) -> dict[str, str]:
    """The fields of the posted form."""
    body = (await request.body()).decode("utf-8", "replace")
    return {key: values[-1] for key, values in parse_qs(body, keep_blank_values=True).items()}


Form = Annotated[dict[str, str], Depends(read_form)]
