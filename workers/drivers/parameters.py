"""What a request asks of vLLM's sampler: pure, and the same whichever way it goes to vLLM."""

from pydantic import JsonValue

from app.spec.experiment import AsyncLlmDriver, LlmDriver
from workers.drivers.base import Request


def list_parameters(request: Request, settings: LlmDriver | AsyncLlmDriver) -> dict[str, JsonValue]:
    """vLLM's sampling parameters of one sample, by its names, as JSON writes them; those that are absent are vLLM's
    defaults. Without `n` and `output_kind`, which are the caller's.
    """
    own: dict[str, JsonValue] = {
        "min_tokens": request.min_tokens,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "detokenize": settings.detokenize,
        "logprobs": settings.logprobs,
    }
    return {**request.sampling.parameters, **{name: value for name, value in own.items() if value is not None}}
