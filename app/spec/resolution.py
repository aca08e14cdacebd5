"""From what was submitted to what each arm will be asked to do.

Precedence, weakest first: common default, model preset, profile, the experiment's `engine`, the arm's own settings.
"""

from collections.abc import Iterator
from typing import Any, assert_never

from pydantic import Field, TypeAdapter, ValidationError

from app.errors import FieldError, InvalidInput
from app.format import listing, quoted
from app.spec.callers import SETTINGS, check_caller, settle_caller
from app.spec.engine import EngineSettings, Environment, HubModel, LoadFormat, PresetModel
from app.spec.experiment import (
    Api,
    Arm,
    AsyncLlmDriver,
    DriverSettings,
    Experiment,
    Residency,
    Samples,
    SimulatedDriver,
)
from app.spec.frozen import SpecModel
from app.spec.models import MODELS
from app.spec.profiles import PROFILES
from app.spec.request_checks import check_arrival, check_sampling, check_sampling_of_driver
from app.spec.shares import check_shares
from app.spec.size import count_prompts, count_samples, too_large
from app.spec.workload import (
    Arrival,
    BatchArrival,
    Empirical,
    FilePrompts,
    Fixed,
    ForcedOutput,
    InlinePrompts,
    LogNormal,
    NaturalOutput,
    SyntheticPrompts,
    TokenDistribution,
    Uniform,
)

_DRIVER: TypeAdapter[DriverSettings] = TypeAdapter(DriverSettings)

# Everything on which vLLM's own defaults depend on how the engine is made (LLM, AsyncLLM, a server): set for every
# arm, so that the choice of interface does not choose the scheduler too.
COMMON_ENGINE = EngineSettings(
    tensor_parallel_size=1,
    dtype="auto",
    max_num_seqs=256,
    max_num_batched_tokens=8192,
    gpu_memory_utilization=0.8,
    enforce_eager=False,
    enable_prefix_caching=True,
    enable_chunked_prefill=True,
    seed=0,
)


class ModelSource(SpecModel):
    """Where vLLM finds the model."""

    id: str = Field(description="Hugging Face id, path, or name of a preset.")
    preset: bool = Field(description="Whether `id` names a preset of this project.")
    revision: str | None = Field(None, description="Commit, tag or branch on the hub.")
    load_format: LoadFormat = Field(description="Real or random weights.")
    tokenizer: str | None = Field(None, description="Tokenizer, if not the model's own.")
    has_tokenizer: bool = Field(description="False where the model comes without a tokenizer.")


class ResolvedArm(SpecModel):
    """One arm, fully spelled out."""

    name: str = Field(description="The arm's name.")
    profile: str = Field(description="Profile and version, e.g. `vllm-sync@1`.")
    model: ModelSource = Field(description="The model.")
    engine: EngineSettings = Field(description="Engine settings; null leaves the choice to vLLM.")
    driver: DriverSettings = Field(description="How requests reach the engine.")
    environment: Environment = Field(description="Where the engine runs.")
    arrival: Arrival = Field(BatchArrival(), description="When the requests start.")

    @property
    def simulated(self) -> bool:
        """True where no engine runs."""
        return self.driver.api is Api.SIMULATED

    @property
    def engine_key(self) -> str:
        """Equal for arms that can share one engine: they differ in driver settings only.

        Not in arrival: what one finds in the prefix cache of its engine follows from when its requests come.
        """
        engine_side: dict[str, Any] = {"api": self.driver.api}
        match self.driver.api:
            case Api.LLM:
                engine_side["engine_process"] = self.driver.engine_process
            case Api.ASYNC_LLM:
                engine_side["caller"] = self.driver.caller
                engine_side |= {name: getattr(self.driver, name) for name in SETTINGS[self.driver.caller]}
            case Api.SIMULATED:
                engine_side["name"] = self.name
            case _:
                assert_never(self.driver)
        return self.model_copy(update={"driver": None, "name": "", "profile": ""}).model_dump_json(
            warnings=False
        ) + repr(sorted(engine_side.items()))


class ResolvedExperiment(SpecModel):
    """The experiment with every default filled in."""

    arms: tuple[ResolvedArm, ...] = Field(description="Every arm, fully spelled out.")
    baseline: str = Field(description="Arm the others are compared with.")

    @property
    def simulated(self) -> bool:
        """True where any arm has no engine: such results never enter a series."""
        return any(arm.simulated for arm in self.arms)

    @property
    def draws_per_prompt(self) -> bool:
        """Whether all samples of a prompt must have one length and one sampling: an arm asks for them with `n`."""
        return any(
            arm.driver.api is not Api.SIMULATED and arm.driver.samples is Samples.N_PARAMETER for arm in self.arms
        )


def resolve(spec: Experiment) -> ResolvedExperiment:
    """Fill in profiles and defaults; raise InvalidInput naming every unknown name and contradiction."""
    errors = [*too_large(spec), *_check_names(spec), *_check_workload(spec), *_check_plan(spec)]
    arms: list[ResolvedArm] = []
    for index, arm in enumerate(spec.arms):
        try:
            arms.append(_resolve_arm(spec, arm))
        except InvalidInput as error:
            errors += [FieldError(f"/arms/{index}{e.pointer}", e.detail) for e in error.errors]
    if not any(error.pointer.startswith("/model") for error in errors):
        for index, settings in _index(spec, arms):
            errors += [FieldError(f"/arms/{index}{e.pointer}", e.detail) for e in _check_arm(spec, settings)]
    resolved = ResolvedExperiment(arms=tuple(arms), baseline=spec.baseline_name)
    errors += _check_shares(spec, resolved)
    if errors:
        raise InvalidInput.of(tuple(errors))
    if spec.calibrate:
        again = arms[0].model_copy(update={"name": f"{arms[0].name} again"})
        return resolved.model_copy(update={"arms": (*resolved.arms, again)})
    return resolved


def longest(distribution: TokenDistribution) -> int:
    """Most tokens a distribution can yield."""
    match distribution:
        case Fixed():
            return distribution.value
        case Uniform():
            return distribution.high
        case LogNormal():
            return distribution.max
        case Empirical():
            return max(distribution.values)
        case _:
            assert_never(distribution)


def longest_prompt(spec: Experiment) -> int | None:
    """Most tokens of a prompt; None where only the worker can count them."""
    match spec.workload.prompts:
        case SyntheticPrompts(tokens=tokens):
            return longest(tokens)
        case FilePrompts():
            return None
        case InlinePrompts(prompts=prompts):
            lengths = [len(prompt) for prompt in prompts if not isinstance(prompt, str)]
            return max(lengths) if len(lengths) == len(prompts) else None
        case _:
            assert_never(spec.workload.prompts)


def longest_output(spec: Experiment) -> int:
    """Most tokens of a sample."""
    match spec.workload.output:
        case ForcedOutput(tokens=tokens):
            return longest(tokens)
        case NaturalOutput(max_tokens=max_tokens):
            return max_tokens
        case _:
            assert_never(spec.workload.output)


def most_prompt_tokens(spec: Experiment, resolved: ResolvedExperiment) -> int | None:
    """Most tokens a prompt may have beside the longest output, in every arm; None where the model's own limit holds."""
    limits = [arm.engine.max_model_len for arm in resolved.arms if arm.engine.max_model_len is not None]
    return min(limits) - longest_output(spec) if limits else None


def _index(spec: Experiment, arms: list[ResolvedArm]) -> list[tuple[int, ResolvedArm]]:
    by_name = {settings.name: settings for settings in arms}
    return [(index, by_name[arm.name]) for index, arm in enumerate(spec.arms) if arm.name in by_name]


def _check_names(spec: Experiment) -> list[FieldError]:
    errors: list[FieldError] = []
    names = [arm.name for arm in spec.arms]
    for index, name in enumerate(names):
        if name in names[:index]:
            errors.append(FieldError(f"/arms/{index}/name", f"another arm is called {quoted(name)}; names must differ"))
    if spec.baseline is not None and spec.baseline not in names:
        errors.append(
            FieldError("/baseline", f"no arm is called {quoted(spec.baseline)}; the arms are {listing(names)}")
        )
    if spec.calibrate and len(names) > 1:
        errors.append(FieldError("/arms", f"calibrate runs one arm against itself; there are {len(names)}"))
    if isinstance(spec.model, PresetModel) and spec.model.preset not in MODELS:
        errors.append(
            FieldError("/model/preset", f"unknown preset {quoted(spec.model.preset)}; there are {', '.join(MODELS)}")
        )
    return errors


def _check_workload(spec: Experiment) -> list[FieldError]:
    errors: list[FieldError] = []
    if isinstance(spec.model, PresetModel) and spec.model.preset in MODELS:
        preset = MODELS[spec.model.preset]
        texts = isinstance(spec.workload.prompts, InlinePrompts) and any(
            isinstance(prompt, str) for prompt in spec.workload.prompts.prompts
        )
        if texts and not preset.has_tokenizer:
            errors.append(
                FieldError("/workload/prompts/prompts", f"{preset.name} has no tokenizer; give lists of token ids")
            )
    model = _find_model_source(spec)
    errors += check_sampling(spec.workload, None if model.has_tokenizer else model.id)
    return errors


def _check_shares(spec: Experiment, resolved: ResolvedExperiment) -> Iterator[FieldError]:
    per_prompt = resolved.draws_per_prompt
    units = count_prompts(spec) if per_prompt else count_samples(spec)
    if units is not None:  # else the worker counts them
        shares = [share.share_pct for share in spec.workload.sampling_shares]
        yield from check_shares(shares, "/workload/sampling_shares", units, per_prompt)


def _check_plan(spec: Experiment) -> list[FieldError]:
    errors: list[FieldError] = []
    looks, starts = spec.plan.looks, spec.plan.starts
    if starts > spec.plan.blocks:
        errors.append(
            FieldError("/plan/starts", f"{starts} starts need a block each, but there are {spec.plan.blocks} blocks")
        )
    if starts > 1 and spec.plan.residency is Residency.RESTART:
        errors.append(FieldError("/plan/starts", "with residency restart every trial has a start of its own already"))
    if starts > 1 and looks:
        errors.append(FieldError("/plan/looks", "a look would end the experiment before all starts are there"))
    if list(looks) != sorted(set(looks)):
        errors.append(FieldError("/plan/looks", "looks must rise"))
    if looks and looks[-1] > spec.plan.blocks:
        errors.append(FieldError("/plan/looks", f"a look after block {looks[-1]}, but there are {spec.plan.blocks}"))
    return errors


def _resolve_arm(spec: Experiment, arm: Arm) -> ResolvedArm:
    profile = PROFILES.get(arm.profile)
    if profile is None:
        raise InvalidInput.of(
            (FieldError("/profile", f"unknown profile {quoted(arm.profile)}; there are {', '.join(PROFILES)}"),)
        )
    engine: dict[str, object] = {"max_model_len": _find_needed_model_len(spec)}
    for settings in (COMMON_ENGINE, _read_preset_engine(spec), profile.engine, spec.engine, arm.engine):
        engine |= settings.model_dump(exclude_unset=True)
    return ResolvedArm(
        name=arm.name,
        profile=f"{profile.name}@{profile.version}",
        model=_find_model_source(spec),
        engine=EngineSettings.model_validate(engine),
        driver=_resolve_driver(profile.driver, arm),
        environment=arm.environment,
        arrival=spec.workload.arrival if arm.arrival is None else arm.arrival,
    )


def _read_preset_engine(spec: Experiment) -> EngineSettings:
    preset = MODELS.get(spec.model.preset) if isinstance(spec.model, PresetModel) else None
    return EngineSettings() if preset is None else preset.engine


def _resolve_driver(base: DriverSettings, arm: Arm) -> DriverSettings:
    overrides = arm.driver.model_dump(exclude_unset=True)
    api = overrides.get("api", base.api)
    inherited = base.model_dump() if api == base.api else {"api": api}
    try:
        driver = _DRIVER.validate_python(inherited | overrides)
    except ValidationError as error:
        raise InvalidInput.of(
            tuple(
                FieldError(
                    "/".join(("/driver", *map(str, e["loc"][1:]))), f"the {api} driver does not take this setting"
                )
                for e in error.errors()
            )
        ) from None
    return settle_caller(driver, overrides) if isinstance(driver, AsyncLlmDriver) else driver


def _find_model_source(spec: Experiment) -> ModelSource:
    match spec.model:
        case PresetModel(preset=name):
            preset = MODELS.get(name)
            return ModelSource(
                id=name,
                preset=True,
                load_format=preset.load_format if preset else LoadFormat.DUMMY,
                has_tokenizer=preset.has_tokenizer if preset else False,
            )
        case HubModel():
            return ModelSource(
                id=spec.model.id,
                preset=False,
                revision=spec.model.revision,
                load_format=spec.model.load_format,
                tokenizer=spec.model.tokenizer,
                has_tokenizer=True,
            )
        case _:
            assert_never(spec.model)


def _find_needed_model_len(spec: Experiment) -> int | None:
    prompt = longest_prompt(spec)
    return None if prompt is None else prompt + longest_output(spec)


def _check_arm(spec: Experiment, arm: ResolvedArm) -> list[FieldError]:
    engine = arm.engine
    errors: list[FieldError] = []
    if engine.max_model_len is not None:
        needed = (longest_prompt(spec) or 1) + longest_output(spec)
        if needed > engine.max_model_len:
            errors.append(
                FieldError(
                    "/engine/max_model_len",
                    f"the longest prompt and output take {needed} tokens, max_model_len is {engine.max_model_len}",
                )
            )
    errors += _check_batched_tokens(engine)
    if not isinstance(arm.driver, SimulatedDriver):
        errors += check_sampling_of_driver(spec.workload, arm.driver)
        errors += check_arrival(arm.arrival, spec.workload.samples_per_prompt, arm.driver)
    if isinstance(arm.driver, AsyncLlmDriver):
        errors += check_caller(arm.arrival, arm.driver)
    if isinstance(arm.driver, SimulatedDriver) and any(
        slot >= spec.plan.blocks * len(spec.arms) for slot in arm.driver.failing_slots
    ):
        errors.append(FieldError("/driver/failing_slots", "there are not so many trials"))
    return errors


def _check_batched_tokens(engine: EngineSettings) -> list[FieldError]:
    tokens = engine.max_num_batched_tokens
    if tokens is None:
        return []
    where = "/engine/max_num_batched_tokens"
    if engine.max_num_seqs is not None and tokens < engine.max_num_seqs:
        return [
            FieldError(where, f"{tokens} is below max_num_seqs ({engine.max_num_seqs}); a step could not hold them")
        ]
    if engine.enable_chunked_prefill is False and engine.max_model_len is not None and tokens < engine.max_model_len:
        return [
            FieldError(
                where,
                f"{tokens} is below max_model_len ({engine.max_model_len}); "
                "raise it or let enable_chunked_prefill split long prompts",
            )
        ]
    return []
