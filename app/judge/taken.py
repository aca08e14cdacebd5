"""What was asked for and what is in force: an arm's settings against what its engine resolved to."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import Field, JsonValue

from app.judge.parity import compare_settings, flatten_settings
from app.measure.records import StartedArm
from app.spec.frozen import SpecModel
from app.spec.resolution import COMMON_ENGINE, ResolvedArm

# Settings that vLLM's configuration keeps under another name; the second is that of older versions.
RENAMED = {
    "engine.kv_cache_dtype": ("engine.*.cache_dtype",),
    "engine.enable_chunked_prefill": ("engine.*.enable_chunked_prefill", "engine.*.chunked_prefill_enabled"),
}
LEFT_TO_VLLM = (None, "auto")
_OF_DRIVERS = ("driver.", "arrival.")  # not every arm has each of them


class NotTaken(SpecModel):
    """A setting that an arm asks for and its engine did not take."""

    setting: str = Field(description="The setting.", examples=["engine.async_scheduling"])
    asked: JsonValue = Field(description="What the arm asks for.", examples=[True])
    got: JsonValue = Field(description="What its engine resolved to.", examples=[False])

    def __str__(self) -> str:
        return f"{self.setting}: asked {json.dumps(self.asked)}, got {json.dumps(self.got)}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """What two arms ask for differently, by what became of it; the values are the first arm's and the second's."""

    in_force: dict[str, tuple[JsonValue, JsonValue]]
    unread: dict[str, tuple[JsonValue, JsonValue]]  # asked for, but nothing tells whether it is in force
    void: dict[str, tuple[JsonValue, JsonValue]]  # asked for, and both have the same

    @property
    def same_twice(self) -> str | None:
        """Why two arms that ask for different things are one and the same, if they are."""
        if self.in_force or self.unread or not self.void:
            return None
        asked = "; ".join(
            f"{setting} is asked to be {json.dumps(ours)} and {json.dumps(theirs)}"
            for setting, (ours, theirs) in self.void.items()
        )
        return f"they are the same thing twice, since nothing they ask for differently is in force: {asked}"


def list_not_taken(arm: ResolvedArm, started: StartedArm) -> tuple[NotTaken, ...]:
    """What the arm asks for and has not got; without what cannot be read back, and what it leaves to vLLM.

    Nobody asks for this project's common defaults, from which a worker departs where an engine needs it, in every arm
    alike (`workers/whole_prompts.py`).
    """
    common = {f"engine.{key}": value for key, value in COMMON_ENGINE.model_dump(mode="json").items()}
    found = ((setting, asked, _read_back(setting, asked, started)) for setting, asked in flatten_settings(arm).items())
    return tuple(
        NotTaken(setting=setting, asked=asked, got=read[0])
        for setting, asked, read in found
        if read and asked not in (*LEFT_TO_VLLM, common.get(setting)) and not _are_equal(asked, read[0])
    )


def list_not_read_back(arm: ResolvedArm, started: StartedArm) -> tuple[str, ...]:
    """Settings the arm asks for of which nothing tells whether they are in force."""
    if started.simulated:
        return ()
    return tuple(
        setting
        for setting, asked in flatten_settings(arm).items()
        if asked not in LEFT_TO_VLLM and not setting.startswith(_OF_DRIVERS) and not _read_back(setting, asked, started)
    )


def contrast(one: ResolvedArm, other: ResolvedArm, arms: Sequence[StartedArm]) -> Contrast:
    """What became of the settings in which two arms differ; all count as in force before both have started."""
    found = Contrast({}, {}, {})
    started = {arm.arm: arm for arm in arms}
    if one.name not in started or other.name not in started:
        return Contrast(compare_settings(one, other), {}, {})
    for setting, asked in compare_settings(one, other).items():
        read = [_read_back(setting, value, started[arm.name]) for value, arm in zip(asked, (one, other), strict=True)]
        if setting.startswith(_OF_DRIVERS) and not all(read):
            found.in_force[setting] = asked  # only one of the drivers has it
        elif not all(read):
            found.unread[setting] = asked
        elif _are_equal(read[0][0], read[1][0]):
            found.void[setting] = asked
        else:
            found.in_force[setting] = (_strip_type(read[0][0]), _strip_type(read[1][0]))
    return found


def _read_back(setting: str, asked: JsonValue, started: StartedArm) -> tuple[JsonValue, ...]:
    """What the engine has of a setting, alone in a tuple; () where nothing tells.

    Of several parts of vLLM's configuration that have the name, one that has what was asked for is believed.
    """
    section, _, name = setting.partition(".")
    if section == "environment":
        if name == "python" or not any(key.startswith("env.") for key in started.config):
            return ()
        return next(((value,) for value in _read_values(f"env.{name}", started)), (None,))
    if setting == "driver.detokenize" and started.config.get("engine.model_config.skip_tokenizer_init") is True:
        return (False,)  # there is nothing to do it with
    patterns = RENAMED.get(setting, (setting, f"{section}.*.{name}") if section == "engine" else (setting,))
    values = [value for pattern in patterns for value in _read_values(pattern, started)]
    known = [value for value in values if is_comparable(asked, value)]
    return next(((value,) for value in known if _are_equal(asked, value)), tuple(known[:1]))


def _read_values(pattern: str, started: StartedArm) -> Iterator[JsonValue]:
    for key, value in started.config.items():
        if key.count(".") == pattern.count(".") and fnmatchcase(key, pattern):
            plain: JsonValue = json.loads(json.dumps(value, default=str))
            yield plain


def is_comparable(asked: JsonValue, got: JsonValue) -> bool:
    """An object's text, or the name of an enum's member beside its number, says nothing of what was asked for."""
    if isinstance(got, str):
        return not got.startswith("<") and (asked is None or isinstance(asked, str))
    return True


def _strip_type(value: JsonValue) -> JsonValue:
    """`torch.float32` and `CompilationMode.NONE` without the type."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _are_equal(one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return str(_strip_type(one)).lower() == str(_strip_type(other)).lower()
    return one == other and isinstance(one, bool) == isinstance(other, bool)
