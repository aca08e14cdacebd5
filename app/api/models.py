"""Which model presets an experiment can name."""

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Page, answer
from app.spec.models import MODELS, ModelPreset

router = APIRouter(prefix="/v1", tags=["catalogue"])


class ModelPage(Page):
    """Every model preset."""

    items: tuple[ModelPreset, ...] = Field(description="Presets an experiment can name.")


@router.get("/models", summary="Model presets", response_model=ModelPage)
async def list_models(request: Request) -> Response:
    """Models this project ships: shapes with random weights, no download."""
    return answer(request, ModelPage(items=tuple(MODELS.values())))
