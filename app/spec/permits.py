"""What a spec may name only because the operator lets it: interpreters, variables, models, data, code.

Told from the text of the spec alone; where files are, `workers.locations` looks behind links too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from app.errors import FieldError, InvalidInput
from app.format import listing, quoted
from app.spec.engine import EngineSettings, Environment, HubModel
from app.spec.experiment import Experiment
from app.spec.workload import FilePrompts

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")

# Variables of vLLM, CUDA, NCCL, PyTorch and OpenMP that load code, write or read files, open ports, reach other hosts,
# hold secrets, or undo what the worker relies on. By the parts of their names, so that new ones are met too; after
# vLLM's envs.py (0.25 to 0.33), NCCL's, CUDA's and OpenMP's lists of variables, and torch's sources.
_WITHHELD = re.compile(
    r"""
    (^|_)(
        PATHS?|DIRS?|DIRECTORY|FOLDER|FILE|FILENAME|ROOT|HOME|PREFIX(?:ES)?(?:_TO_COPY)?|SO|LIBRAR(?:Y|IES)|LIB  # files
        |PLUGINS?|PRELOAD|INJECTION\d*|EXTENSIONS?|EXECUTABLE|COMPILER|NVCC|TOOL|HOOK|RESOLVER         # code
        |LOGS|TRACE|PROFILE|PROFILER|DUMP|COREDUMP|LOGGING_STREAM|LOGGING_CONFIG|DEBUG_INFO|COMPILE_DEBUG      # writes
        |HOST|IP|IPS|PORT|PORTS|ADDR|ADDRESS|URL|URI|SERVER|ENDPOINT|IFNAME|COMM_ID|MASTER|SIDE_CHANNEL        # network
        |KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?                                                                # secrets
        |ENV_VARS?|MCP|ALLOW_INSECURE_SERIALIZATION|RUNTIME_LORA\w*|DEV_MODE|MODELSCOPE|REDIRECT               # doors
    )(_|$)
    |^VLLM_(RAY|MOONCAKE|NIXL|P2P|EC|DP|MEDIA|ASSETS|LORA_RESOLVER|BUILD|DOCKER|RUST|SERVER|PROCESS_NAME)_
    |^VLLM_(NO_USAGE_STATS|DO_NOT_TRACK|USAGE_\w+|TRACE_FUNCTION|LOGGING_STREAM|CONFIGURE_LOGGING|USE_RUST_FRONTEND)$
    |^VLLM_(OBJECT_STORAGE_SHM_BUFFER_NAME|GPU_NIC_PCIE_MAPPING|NIC_SELECTION_VARS|TARGET_DEVICE|USE_PRECOMPILED\w*)$
    |^VLLM_(GPT_OSS|KV_EVENTS|TUNED_CONFIG|XLA_CACHE)_
    |^CUDA_(VISIBLE_DEVICES|CACHE_PATH|MPS_\w+|DEBUGGER\w*|LOG_\w+|ENABLE_\w*COREDUMP\w*|ENABLE_USER_TRIGGERED\w*)$
    |^NCCL_(CONF|TOPO|GRAPH|RAS|INSPECTOR|NET|TUNER|PROFILER|ENV)_
    |^NCCL_(NET|DEBUG_FILE|HOSTID)$
    |^TORCH_(LOGS\w*|TRACE\w*|FR_\w*|NCCL_DEBUG\w*|DEVICE_BACKEND_AUTOLOAD|COMPILE_DEBUG\w*|ELASTIC\w*)$
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Permits:
    """What an operator lets specs name; the defaults are what hurts nobody."""

    environments: Mapping[str, str] = field(default_factory=dict)  # name -> Python interpreter
    variables: frozenset[str] = frozenset()  # allowed beside the harmless ones
    hub_models: tuple[str, ...] = ("*",)  # patterns of ids
    remote_code: tuple[str, ...] = ()  # patterns of ids of models whose own code may run
    model_roots: tuple[str, ...] = ()  # absolute folders
    data_roots: tuple[str, ...] = ()


def require_permitted(spec: Experiment, permits: Permits) -> None:
    """Raise InvalidInput naming everything in the spec that the operator does not let it name."""
    errors = tuple(list_refusals(spec, permits))
    if errors:
        raise InvalidInput.of(errors)


def list_refusals(spec: Experiment, permits: Permits) -> Iterator[FieldError]:
    """Everything in the spec that the operator does not let it name."""
    yield from _refuse_models(spec, permits)
    yield from _refuse_code(spec, spec.engine, "/engine", permits)
    for index, arm in enumerate(spec.arms):
        yield from _refuse_code(spec, arm.engine, f"/arms/{index}/engine", permits)
        yield from _refuse_environment(arm.environment, f"/arms/{index}/environment", permits)
    prompts = spec.workload.prompts
    if isinstance(prompts, FilePrompts) and not lies_below(prompts.path, permits.data_roots):
        yield FieldError(
            "/workload/prompts/path",
            f"{quoted(prompts.path)} is no file below {_say_roots(permits.data_roots)}; the operator names folders of "
            "prompts in ROLLOUT_LAB_DATA_ROOTS",
        )


def is_hub_id(reference: str) -> bool:
    """Whether a model is named as the hub names models, and not as a folder."""
    return _HUB_ID.fullmatch(reference) is not None and ".." not in reference and "--" not in reference


def lies_below(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path, absolute or relative to a root, stays below one of the roots as far as its text tells."""
    pure = PurePosixPath(path)
    if ".." in pure.parts or ":" in pure.parts[0] or "~" in pure.parts[0]:
        return False
    return any(not pure.is_absolute() or pure.is_relative_to(root) for root in roots)


def _refuse_models(spec: Experiment, permits: Permits) -> Iterator[FieldError]:
    if not isinstance(spec.model, HubModel):
        return
    for key in ("id", "tokenizer"):
        reference: str | None = getattr(spec.model, key)
        if reference is None:
            continue
        if is_hub_id(reference):
            if not _match(reference, permits.hub_models):
                yield FieldError(
                    f"/model/{key}",
                    f"{quoted(reference)} is none of the hub's models that may be used here "
                    f"({listing(permits.hub_models) or 'none'}); the operator names them in ROLLOUT_LAB_HUB_MODELS",
                )
        elif not reference.startswith("/") or not lies_below(reference, permits.model_roots):
            yield FieldError(
                f"/model/{key}",
                f"{quoted(reference)} is neither a Hugging Face id nor a folder below "
                f"{_say_roots(permits.model_roots)}; the operator names folders of models in ROLLOUT_LAB_MODEL_ROOTS",
            )
    if spec.model.revision is not None and ".." in spec.model.revision:
        yield FieldError("/model/revision", f"{quoted(spec.model.revision)} is no commit, tag or branch")


def _refuse_code(spec: Experiment, engine: EngineSettings, pointer: str, permits: Permits) -> Iterator[FieldError]:
    if not engine.trust_remote_code:
        return
    model = spec.model
    named = [model.id, *filter(None, [model.tokenizer])] if isinstance(model, HubModel) else [model.preset]
    for reference in named:
        if not _match(reference, permits.remote_code):
            yield FieldError(
                f"{pointer}/trust_remote_code",
                f"code of {quoted(reference)} may not run here; the operator names models whose code may run in "
                "ROLLOUT_LAB_REMOTE_CODE",
            )


def _refuse_environment(environment: Environment, pointer: str, permits: Permits) -> Iterator[FieldError]:
    python = environment.python
    if python is not None and python not in permits.environments:
        known = listing(sorted(permits.environments)) or "none"
        yield FieldError(
            f"{pointer}/python",
            f"no environment is called {quoted(python)}; there are: {known}. The operator names them, and their "
            "interpreters, in ROLLOUT_LAB_ENVIRONMENTS",
        )
    for name, value in environment.variables.items():
        if _WITHHELD.search(name) and name not in permits.variables:
            yield FieldError(
                f"{pointer}/variables/{name}",
                "may load code, reach files or hosts, or undo what the worker sets; the operator allows single "
                "variables in ROLLOUT_LAB_VARIABLES",
            )
        elif "$" in value or not value.isprintable():
            # Ray would put variables of its own processes, secrets among them, in the place of ${…}.
            yield FieldError(f"{pointer}/variables/{name}", "is taken literally: write the value itself, without $")


def _match(reference: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(reference, pattern) for pattern in patterns)


def _say_roots(roots: tuple[str, ...]) -> str:
    return listing(roots) or "any folder, for none is named"
