"""Which profiles an arm can name."""

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Page, answer
from app.spec.profiles import PROFILES, Profile

router = APIRouter(prefix="/v1", tags=["catalogue"])


class ProfilePage(Page):
    """Every profile."""

    items: tuple[Profile, ...] = Field(description="Profiles an arm can name.")


@router.get("/profiles", summary="Profiles", response_model=ProfilePage)
async def list_profiles(request: Request) -> Response:
    """Named, versioned settings that arms start from."""
    return answer(request, ProfilePage(items=tuple(PROFILES.values())))
