"""Seeded prompts on a CPU, which may not be split over the steps of an engine.

Where vLLM samples in the middle of a prompt, it sets the random generator of a seeded request back
(`GPUModelRunner._bookkeeping_sync`), which the generators of a CPU cannot do: the engine core dies.
"""

from collections.abc import Sequence
from typing import assert_never

from app.errors import InvalidWorkload
from app.spec.engine import EngineSettings
from app.spec.experiment import Arm, Experiment
from app.spec.resolution import ResolvedArm, ResolvedExperiment, longest_prompt
from app.spec.workload import FilePrompts, InlinePrompts, SyntheticPrompts

_LEAST_BATCHED_TOKENS = 2048  # vLLM's own choice for a CPU, at least


def keep_prompts_whole(
    spec: Experiment, resolved: ResolvedExperiment, from_file: Sequence[str | tuple[int, ...]] | None
) -> dict[str, ResolvedArm]:
    """The arms as their engines are started on a CPU, by name; ``from_file`` are the prompts of a file.

    Prompts that are seeded are kept whole, in every arm alike, and a step has room for the longest sequence. Where
    the experiment itself asks for split prompts, or for smaller steps, it gets them, unless its prompts may not fit
    into a step: then InvalidWorkload says what to change.
    """
    arms = {arm.name: arm for arm in resolved.arms}
    if not any(one.per_request_seed and one.temperature > 0 for one in spec.workload.samplings):
        return arms
    asked = {arm.name: arm for arm in spec.arms}
    engines = [arm for arm in resolved.arms if not arm.simulated]
    # Of an A/A experiment the second arm has no entry of its own, and no wishes either.
    if any(_asks_for_parts(spec, asked.get(arm.name), arm.engine) for arm in engines):
        for arm in engines:
            _require_room(spec, arm, from_file)
        return arms
    whole = {}
    for arm in engines:
        engine = arm.engine
        changes: dict[str, object] = {"enable_chunked_prefill": False}
        if engine.max_num_batched_tokens is not None and engine.max_model_len is not None:
            changes["max_num_batched_tokens"] = max(engine.max_num_batched_tokens, engine.max_model_len)
        whole[arm.name] = arm.model_copy(update={"engine": engine.model_copy(update=changes)})
    return arms | whole


def _asks_for_parts(spec: Experiment, arm: Arm | None, engine: EngineSettings) -> bool:
    asked = spec.engine.model_fields_set | (arm.engine.model_fields_set if arm is not None else set())
    if "enable_chunked_prefill" in asked and engine.enable_chunked_prefill is not False:
        return True
    tokens = engine.max_num_batched_tokens
    if "max_num_batched_tokens" not in asked or tokens is None:
        return False
    return engine.max_model_len is None or tokens < engine.max_model_len


def _require_room(spec: Experiment, arm: ResolvedArm, from_file: Sequence[str | tuple[int, ...]] | None) -> None:
    prompts = spec.workload.prompts
    match prompts:
        case SyntheticPrompts():
            count = prompts.count
        case InlinePrompts():
            count = len(prompts.prompts)
        case FilePrompts():
            count = len(from_file or ())
        case _:
            assert_never(prompts)
    if from_file is None:
        longest = longest_prompt(spec)
    else:  # text has yet to be encoded
        longest = None if any(isinstance(one, str) for one in from_file) else max(map(len, from_file))
    if arm.engine.enable_chunked_prefill is False or longest is None:
        return
    at_once = spec.workload.samples_per_prompt * count
    at_once = min(at_once, arm.engine.max_num_seqs or at_once)
    room = arm.engine.max_num_batched_tokens or _LEAST_BATCHED_TOKENS
    if at_once * longest > room:
        raise InvalidWorkload(
            f"{at_once} prompts of up to {longest} tokens do not fit into a step of {room}, and on a CPU vLLM cannot "
            "split a prompt whose request has a seed: leave engine.enable_chunked_prefill and "
            "engine.max_num_batched_tokens out, raise the latter, or set workload.sampling.per_request_seed: false",
            arm.name,
        )
