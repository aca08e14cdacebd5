"""`AsyncLLM` with one task per request."""

from app.experiment.profiles.base import Profile
from app.experiment.spec import AsyncLlmDriver

PROFILE = Profile(
    name="vllm-async",
    version=1,
    summary="One task per request on vLLM's AsyncLLM, each delivering its sample once, when it is complete.",
    driver=AsyncLlmDriver(),
)
