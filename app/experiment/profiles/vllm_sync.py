"""`LLM.generate` as vLLM does it by default."""

from app.experiment.profiles.base import Profile
from app.experiment.spec import LlmDriver

PROFILE = Profile(
    name="vllm-sync",
    version=1,
    summary="The whole batch through vLLM's synchronous LLM; the engine core has a process of its own.",
    driver=LlmDriver(),
)
