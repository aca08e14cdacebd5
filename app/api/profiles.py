"""What arms and model presets there are."""

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Page, answer
from app.spec.models import MODELS, ModelPreset
from app.spec.profiles import PROFILES, Profile

router = APIRouter(prefix="/v1", tags=["catalogue"])


class ProfilePage(Page):
    """Every profile."""

    items: tuple[Profile, ...] = Field(description="Profiles an arm can name.")


class ModelPage(Page):
    """Every model preset."""

    items: tuple[ModelPreset, ...] = Field(description="Presets an experiment can name.")


@router.get("/profiles", summary="Profiles", response_model=ProfilePage)
async def list_profiles(request: Request) -> Response:
    """Named, versioned settings that arms start from."""
    return answer(request, ProfilePage(items=tuple(PROFILES.values())))


@router.get("/models", summary="Model presets", response_model=ModelPage)
async def list_models(request: Request) -> Response:
    """Models this project ships: shapes with random weights, no download."""
    return answer(request, ModelPage(items=tuple(MODELS.values())))
