"""Work that is unequal because of what the arms ask for is an effect of it, and no confound."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

from app.judge.blocks import Blocks, fairness_of
from app.judge.fairness import Aspect, Fairness, WorkDifference
from app.judge.taken import contrast
from app.measure.records import StartedArm
from app.spec.resolution import ResolvedArm

_CACHED: tuple[Aspect, ...] = ("cached_tokens",)
_LENGTHS: tuple[Aspect, ...] = ("output_tokens", "finish_reasons", "shape")

_SWITCH = "engine.enable_prefix_caching"  # without a cache nothing else about it matters

# Setting -> what of the work it decides. All of them belong to the engine: arms that differ in one have an engine
# each, so that none finds in its cache what the other left there.
EFFECTS: dict[str, tuple[Aspect, ...]] = {
    # Whether a prefix is kept, and in blocks of how many tokens: only whole blocks are found again.
    _SWITCH: _CACHED,
    "engine.block_size": _CACHED,
    # How much fits: a cache that is full throws out prefixes that will be asked for again.
    "engine.num_gpu_blocks_override": _CACHED,
    "engine.gpu_memory_utilization": _CACHED,
    "environment.VLLM_CPU_KVCACHE_SPACE": _CACHED,
    # A prefix is there once it has been computed: what shares a step with it, and is too early, is computed again.
    "engine.max_num_seqs": _CACHED,
    "engine.max_num_batched_tokens": _CACHED,
    "engine.enable_chunked_prefill": _CACHED,
    "engine.async_scheduling": _CACHED,
    # How much fits, and other numbers: where the model may end a sample, it ends it elsewhere.
    "engine.tensor_parallel_size": (*_CACHED, *_LENGTHS),
    "engine.dtype": (*_CACHED, *_LENGTHS),
    "engine.quantization": (*_CACHED, *_LENGTHS),
    "engine.kv_cache_dtype": (*_CACHED, *_LENGTHS),
    "engine.enforce_eager": (*_CACHED, *_LENGTHS),
    # Another vLLM.
    "environment.python": (*_CACHED, *_LENGTHS),
}


def work_of_arms(
    blocks: Blocks, arms: Sequence[ResolvedArm], started: Sequence[StartedArm], *, natural: bool = False
) -> Fairness:
    """Whether the arms did the same work, and from which of their settings it follows where they did not."""
    fairness = fairness_of(blocks, [arm.name for arm in arms], natural=natural)
    if fairness.equal:
        return fairness
    causes: dict[Aspect, list[str | None]] = {}
    for one, other in combinations(arms, 2):
        asked = contrast(one, other, started)
        differing = {*asked.in_force, *asked.unread}
        for difference in fairness_of(blocks, [one.name, other.name], natural=natural).differences:
            causes.setdefault(difference.what, []).append(_cause(difference.what, fairness, differing))
    return fairness.model_copy(
        update={"differences": tuple(_with_cause(one, causes.get(one.what, [])) for one in fairness.differences)}
    )


def effects(fairness: Fairness) -> Iterator[str]:
    """The differences that are effects, in words."""
    for difference in fairness.differences:
        if difference.setting is not None:
            yield f"{_effect(difference)}, which follows from {difference.setting}"


def told(difference: WorkDifference) -> str:
    """What differs, in words."""
    totals = set(difference.values.values())
    if len(totals) == 1:
        blocks = ", ".join(map(str, difference.blocks))
        return f"{difference.what} differ within blocks {blocks}, though every arm has {totals.pop()} in all"
    values = ", ".join(f"{arm} {value}" for arm, value in difference.values.items())
    return f"{difference.what} differ: {values or 'sample by sample'}"


def _effect(difference: WorkDifference) -> str:
    none = [arm for arm, value in difference.values.items() if value == "0"]
    if difference.what != "cached_tokens" or len(none) != 1:
        return told(difference)
    others = ", ".join(f"{arm} {value}" for arm, value in difference.values.items() if arm not in none)
    return f"{none[0]} caches no prompt tokens ({others})"


def _cause(what: Aspect, fairness: Fairness, differing: AbstractSet[str]) -> str | None:
    """The settings that explain it. Lengths follow from the model only where it may end a sample itself."""
    reasons = {reason for counts in fairness.finish_reasons.values() for reason in counts}
    if what in _LENGTHS and not ("stop" in reasons and reasons <= {"stop", "length"}):
        return None
    found = [setting for setting, aspects in EFFECTS.items() if setting in differing and what in aspects]
    return _SWITCH if _SWITCH in found else ", ".join(found) or None


def _with_cause(difference: WorkDifference, causes: Sequence[str | None]) -> WorkDifference:
    named = sorted({cause for cause in causes if cause is not None})
    explained = bool(named) and None not in causes
    return difference.model_copy(update={"setting": ", ".join(named) if explained else None})
