"""Work that is unequal because of what the arms ask for is an effect of it, and no confound."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

from app.judge.blocks import Blocks, compare_work
from app.judge.fairness import Aspect, Fairness, WorkDifference
from app.judge.taken import contrast
from app.measure.records import StartedArm
from app.spec.resolution import ResolvedArm

_CACHED: tuple[Aspect, ...] = ("cached_tokens",)
_LENGTHS: tuple[Aspect, ...] = ("output_tokens", "finish_reasons", "shape")

_SWITCH = "engine.enable_prefix_caching"  # without a cache nothing else about it matters

# Setting -> what of the work it decides. Arms that differ in one of them have an engine each, so that
# none finds in its cache what the other left there.
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
    # A prefix is there for what comes later, and not for what comes with it.
    "arrival.pattern": _CACHED,
    "arrival.rate": _CACHED,
    "arrival.limit": _CACHED,
    "arrival.size": _CACHED,
    # How much fits, and other numbers: where the model may end a sample, it ends it elsewhere.
    "engine.tensor_parallel_size": (*_CACHED, *_LENGTHS),
    "engine.dtype": (*_CACHED, *_LENGTHS),
    "engine.quantization": (*_CACHED, *_LENGTHS),
    "engine.kv_cache_dtype": (*_CACHED, *_LENGTHS),
    "engine.enforce_eager": (*_CACHED, *_LENGTHS),
    # Another vLLM.
    "environment.python": (*_CACHED, *_LENGTHS),
}


def compare_work_of_arms(
    blocks: Blocks, arms: Sequence[ResolvedArm], started: Sequence[StartedArm], *, natural: bool = False
) -> Fairness:
    """Whether the arms did the same work, and from which of their settings it follows where they did not."""
    fairness = compare_work(blocks, [arm.name for arm in arms], natural=natural)
    if fairness.equal:
        return fairness
    causes: dict[Aspect, list[str | None]] = {}
    for one, other in combinations(arms, 2):
        asked = contrast(one, other, started)
        differing = {*asked.in_force, *asked.unread}
        for difference in compare_work(blocks, [one.name, other.name], natural=natural).differences:
            causes.setdefault(difference.what, []).append(find_cause(difference.what, fairness, differing))
    explained = []
    for difference in fairness.differences:
        found = causes.get(difference.what, [])
        named = sorted({cause for cause in found if cause is not None})
        setting = ", ".join(named) if named and None not in found else None
        explained.append(difference.model_copy(update={"setting": setting}))
    return fairness.model_copy(update={"differences": tuple(explained)})


def list_effects(fairness: Fairness) -> Iterator[str]:
    """The differences that are effects, in words."""
    for difference in fairness.differences:
        if difference.setting is None:
            continue
        said, none = describe_difference(difference), [arm for arm, value in difference.values.items() if value == "0"]
        if difference.what == "cached_tokens" and len(none) == 1:
            others = ", ".join(f"{arm} {value}" for arm, value in difference.values.items() if arm not in none)
            said = f"{none[0]} caches no prompt tokens ({others})"
        yield f"{said}, which follows from {difference.setting}"


def describe_difference(difference: WorkDifference) -> str:
    """What differs, in words."""
    totals = set(difference.values.values())
    if len(totals) == 1:
        blocks = ", ".join(map(str, difference.blocks))
        return f"{difference.what} differ within blocks {blocks}, though every arm has {totals.pop()} in all"
    values = ", ".join(f"{arm} {value}" for arm, value in difference.values.items())
    return f"{difference.what} differ: {values or 'sample by sample'}"


def find_cause(what: Aspect, fairness: Fairness, differing: AbstractSet[str]) -> str | None:
    """The settings that explain it. Lengths follow from the model only where it may end a sample itself."""
    reasons = {reason for counts in fairness.finish_reasons.values() for reason in counts}
    if what in _LENGTHS and not ("stop" in reasons and reasons <= {"stop", "length"}):
        return None
    found = [setting for setting, aspects in EFFECTS.items() if setting in differing and what in aspects]
    return _SWITCH if _SWITCH in found else ", ".join(found) or None
