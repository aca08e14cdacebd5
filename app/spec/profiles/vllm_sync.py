"""`LLM.generate` as vLLM does it by default."""

from app.spec.experiment import LlmDriver
from app.spec.profiles.profile import Profile

PROFILE = Profile(
    name="vllm-sync",
    version=1,
    summary="The whole batch through vLLM's synchronous LLM; the engine core has a process of its own.",
    driver=LlmDriver(),
)
