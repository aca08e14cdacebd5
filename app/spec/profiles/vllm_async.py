"""`AsyncLLM` with one task per request."""

from app.spec.experiment import AsyncLlmDriver
from app.spec.profiles.profile import Profile

PROFILE = Profile(
    name="vllm-async",
    version=1,
    summary="One task per request on vLLM's AsyncLLM, each delivering its sample once, when it is complete.",
    driver=AsyncLlmDriver(),
)
