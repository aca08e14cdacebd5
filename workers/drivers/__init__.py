"""Ways of driving vLLM: one module each, and one line here."""

from typing import assert_never

from app.spec.experiment import Api
from app.spec.resolution import ResolvedArm
from workers.drivers.base import Driver


def make_driver(settings: ResolvedArm, sleep_mode: bool, seed: int) -> Driver:
    """The driver of an arm. vLLM is imported only by those that need it, so that its environment can be set first."""
    match settings.driver.api:
        case Api.LLM:
            from workers.drivers.llm import LlmEngine

            return LlmEngine(settings, sleep_mode)
        case Api.ASYNC_LLM:
            from workers.drivers.async_llm import AsyncLlmEngine

            return AsyncLlmEngine(settings, sleep_mode)
        case Api.SIMULATED:
            from workers.drivers.simulated import SimulatedEngine

            return SimulatedEngine(settings, seed)
        case _:
            assert_never(settings.driver)
