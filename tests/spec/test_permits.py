"""What a spec may name only where the operator lets it."""

from typing import Any

import pytest

from app.spec.parsing import parse_experiment
from app.spec.permits import Permits, list_refusals

HARMLESS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND"),
    *("VLLM_ATTENTION_BACKEND", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_LOGGING_LEVEL"),
    *("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_DISABLE_COMPILE_CACHE", "VLLM_USE_DEEP_GEMM"),
    *("VLLM_WORKER_MULTIPROC_METHOD", "VLLM_BATCH_INVARIANT", "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"),
    *("VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE", "VLLM_ALLREDUCE_USE_SYMM_MEM", "VLLM_USE_NCCL_SYMM_MEM"),
    *("VLLM_DISABLE_PYNCCL", "VLLM_SKIP_P2P_CHECK"),
    *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_DEVICE_ORDER"),
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_MIN_NCHANNELS"),
    *("TORCH_CUDA_ARCH_LIST", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_SHOW_CPP_STACKTRACES", "TOKENIZERS_PARALLELISM"),
)
DANGEROUS = (
    # load code
    *("VLLM_PLUGINS", "CUDA_INJECTION64_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"),
    *("OMP_TOOL", "OMP_TOOL_LIBRARIES", "VLLM_NCCL_SO_PATH", "VLLM_CUDART_SO_PATH", "CUDA_HOME", "CUDA_PATH"),
    *(
        "VLLM_ALLOW_INSECURE_SERIALIZATION",
        "VLLM_LOGGING_CONFIG_PATH",
        "VLLM_LOGGING_STREAM",
        "VLLM_RUST_FRONTEND_PATH",
    ),
    *(
        "TORCH_EXTENSIONS_DIR",
        "TORCH_LOGS",
        "CUDA_NVCC_EXECUTABLE",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
        "NCCL_ENV_PLUGIN",
    ),
    *("VLLM_LORA_RESOLVER_CACHE_DIR", "VLLM_LORA_RESOLVER_HF_REPO_LIST", "VLLM_USE_MODELSCOPE", "OMP_PRELOAD"),
    # write or read files
    *("VLLM_TORCH_PROFILER_DIR", "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "VLLM_TRACE_FUNCTION", "VLLM_DEBUG_DUMP_PATH"),
    *("NCCL_DEBUG_FILE", "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_CONF_FILE"),
    *("TORCH_TRACE", "TORCH_LOGS_OUT", "TORCH_COMPILE_DEBUG", "TORCH_HOME", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
    *(
        "CUDA_COREDUMP_FILE",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
        "CUDA_CACHE_PATH",
        "CUDA_LOG_FILE",
        "VLLM_MEDIA_CACHE",
    ),
    *("VLLM_TUNED_CONFIG_FOLDER", "VLLM_XLA_CACHE_PATH", "VLLM_MODEL_REDIRECT_PATH", "MKL_VERBOSE_OUTPUT_FILE"),
    *("VLLM_ASSETS_CACHE", "VLLM_RPC_BASE_PATH", "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR", "TORCH_FR_DUMP_TEMP_FILE"),
    # reach other hosts
    *("VLLM_HOST_IP", "VLLM_PORT", "VLLM_USAGE_STATS_SERVER", "VLLM_NO_USAGE_STATS", "VLLM_DO_NOT_TRACK"),
    *("VLLM_DP_MASTER_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST", "NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", "VLLM_LOOPBACK_IP"),
    *("VLLM_MOONCAKE_BOOTSTRAP_PORT", "NCCL_RAS_ADDR", "VLLM_P2P_SIDE_CHANNEL_HOST", "VLLM_EC_SIDE_CHANNEL_HOST"),
    # hold secrets, copy them, or undo what the worker sets
    *("VLLM_API_KEY", "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY"),
    *("CUDA_VISIBLE_DEVICES", "VLLM_PROCESS_NAME_PREFIX", "VLLM_RAY_BUNDLE_INDICES", "VLLM_SERVER_DEV_MODE"),
)


def refused(permits: Permits = Permits(), **changes: Any) -> dict[str, str]:  # noqa: B008 - frozen
    arm = {"name": "a", "profile": "simulated"} | changes.pop("arm", {})
    document = {"model": {"preset": "tiny-qwen2"}, "arms": [arm]} | changes
    return {one.pointer: one.detail for one in list_refusals(parse_experiment(document), permits)}


def with_variable(name: str, value: str = "1", permits: Permits = Permits()) -> dict[str, str]:  # noqa: B008 - frozen
    return refused(permits, arm={"environment": {"variables": {name: value}}})


@pytest.mark.parametrize("name", HARMLESS)
def test_variables_that_tune_are_taken(name: str) -> None:
    assert with_variable(name) == {}


@pytest.mark.parametrize("name", DANGEROUS)
def test_variables_that_load_write_or_reach_are_the_operator_s_to_allow(name: str) -> None:
    (pointer,) = with_variable(name)
    assert pointer == f"/arms/0/environment/variables/{name}"
    assert with_variable(name, permits=Permits(variables=frozenset({name}))) == {}


@pytest.mark.parametrize("value", ["${HF_TOKEN}", "$HF_TOKEN", "a$b", "a\nb", "\x1b[2J"])
def test_a_variable_s_value_is_never_expanded(value: str) -> None:
    assert "taken literally" in with_variable("OMP_LEAK", value)["/arms/0/environment/variables/OMP_LEAK"]


@pytest.mark.parametrize(
    "python", ["/usr/bin/python3", "sh -c 'id>/tmp/x; exec python \"$@\"' x", "./python", "other", "/bin/true"]
)
def test_an_interpreter_is_named_and_never_given_by_path(python: str) -> None:
    permits = Permits(environments={"nightly": "/opt/vllm-nightly/bin/python"})
    said = refused(permits, arm={"environment": {"python": python}})["/arms/0/environment/python"]
    assert "there are: nightly" in said
    assert "ROLLOUT_LAB_ENVIRONMENTS" in said
    assert refused(permits, arm={"environment": {"python": "nightly"}}) == {}


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "../../etc/passwd",
            "/etc/passwd",
            "/models/../etc",
            "s3://bucket/model",
            "gs://b/m",
            "https://x/y",
            "a/b/c/../d",
        ),
        *("~/model", "a/b/c", "a/b/c/../d", "./model", "org/../x", "org/model:Q4", "org//model", "-x", "a" * 200),
    ],
)
@pytest.mark.parametrize("key", ["id", "tokenizer"])
def test_a_model_is_one_of_the_hub_or_lies_below_a_root(reference: str, key: str) -> None:
    model = {"id": "org/model", key: reference}
    assert set(refused(Permits(model_roots=("/srv/models",)), model=model)) == {f"/model/{key}"}


@pytest.mark.parametrize("reference", ["gpt2", "Qwen/Qwen2.5-7B", "deepseek-ai/DeepSeek-R1", "/srv/models/a/b"])
def test_models_of_the_hub_and_below_roots_are_taken(reference: str) -> None:
    assert refused(Permits(model_roots=("/srv/models",)), model={"id": reference}) == {}


def test_an_operator_may_narrow_the_hub() -> None:
    permits = Permits(hub_models=("Qwen/*",))
    assert refused(permits, model={"id": "Qwen/Qwen2.5-7B"}) == {}
    assert "Qwen/*" in refused(permits, model={"id": "evil/Qwen"})["/model/id"]


@pytest.mark.parametrize("where", ["engine", "arm"])
def test_code_of_a_model_runs_only_where_the_operator_lists_it(where: str) -> None:
    trusting = {"engine": {"trust_remote_code": True}}
    changes: dict[str, Any] = trusting if where == "engine" else {"arm": trusting}
    model = {"id": "org/model"}
    (pointer,) = refused(model=model, **changes)
    assert pointer.endswith("engine/trust_remote_code")
    assert refused(Permits(remote_code=("org/*",)), model=model, **changes) == {}
    other = {"id": "org/model", "tokenizer": "evil/tokenizer"}
    assert refused(Permits(remote_code=("org/*",)), model=other, **changes)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "s3://bucket?endpoint_override=evil/x.jsonl",
            "hf://datasets/x/y.parquet",
            "file:///etc/x.jsonl",
            "/etc/x.jsonl",
        ),
        *(
            "/etc/x.jsonl",
            "/data/../etc/x.jsonl",
            "../x.jsonl",
            "~root/x.jsonl",
            "http://[::1]/x.jsonl",
            "/database/x.jsonl",
        ),
    ],
)
def test_prompts_lie_below_a_root(path: str) -> None:
    found = refused(Permits(data_roots=("/data",)), workload={"prompts": {"path": path}})
    assert "below /data" in found["/workload/prompts/path"]


@pytest.mark.parametrize("path", ["/data/x.jsonl", "/data/a/b.parquet", "x.jsonl", "a/x.parquet"])
def test_prompts_below_a_root_are_taken(path: str) -> None:
    assert refused(Permits(data_roots=("/data",)), workload={"prompts": {"path": path}}) == {}


def test_a_revision_leads_nowhere_else() -> None:
    assert "/model/revision" in refused(model={"id": "org/model", "revision": "a/../../b"})


@pytest.mark.parametrize(
    "argument",
    [
        *("worker_cls", "worker_extension_cls", "scheduler_cls", "logits_processors", "model_loader_extra_config"),
        *("hf_overrides", "hf_config_path", "hf_token", "download_dir", "additional_config", "kv_transfer_config"),
        *(
            "allowed_local_media_path",
            "io_processor_plugin",
            "compilation_config",
            "otlp_traces_endpoint",
            "model_impl",
        ),
        *("skip_tokenizer_init", "load_format", "speculative_config", "structured_outputs_config", "reasoning_parser"),
    ],
)
def test_engine_arguments_that_load_code_or_reach_out_are_none_of_the_spec_s(argument: str) -> None:
    with pytest.raises(Exception, match=f"unknown field '{argument}'"):
        refused(engine={argument: "x"})
