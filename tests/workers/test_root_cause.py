"""The line that says why an engine did not start."""

from workers.root_cause import find_root_cause, tail

ENGINE_LOG = """\
(EngineCore pid=12) INFO 11-30 02:50:12 [core.py:90] Initializing a V1 LLM engine
(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900] EngineCore failed to start.
(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900]   File "core.py", line 880, in run_engine_core
(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900] ValueError: 2.0 GiB KV cache is needed
(EngineCore pid=12) Traceback (most recent call last):
(EngineCore pid=12) ValueError: 2.0 GiB KV cache is needed
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_engine_core_s_exception_is_the_cause_not_the_front_end_s() -> None:
    error = "Engine core initialization failed. See root cause above."
    assert find_root_cause(error, ENGINE_LOG) == "ValueError: 2.0 GiB KV cache is needed"


def test_a_qualified_exception_name_is_recognised() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert find_root_cause("Engine core initialization failed", log) == log


def test_without_a_traceback_the_error_itself_is_the_cause() -> None:
    assert find_root_cause("first\nOSError: no such model", "INFO all is well") == "OSError: no such model"


DEAD = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."


def test_a_core_that_dies_in_a_trial_is_explained_by_its_own_exception() -> None:
    log = (
        '(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900]   File "x.py", line 3, in step\n'
        "(EngineCore pid=12) ERROR 11-30 02:50:20 [core.py:900] RuntimeError: CPU Generator does not use offset\n"
        f"ERROR 11-30 02:50:20 [async_llm.py:900] vllm.v1.engine.exceptions.{DEAD}\n"
    )
    said = find_root_cause(DEAD, log)
    assert said.startswith("RuntimeError: CPU Generator does not use offset (")
    assert "per_request_seed: false" in said


def test_a_core_that_was_killed_has_no_stack_trace_to_point_to() -> None:
    log = f"ERROR 11-30 02:50:20 [core_client.py:1] Engine core proc EngineCore_DP0 died unexpectedly\n{DEAD}"
    said = find_root_cause(f"the engine core died: {DEAD}", log)
    assert "above" not in said
    assert "killed" in said


def test_a_process_that_is_gone_is_the_cause_where_the_log_has_none() -> None:
    assert find_root_cause("the engine's process 12 is gone", f"INFO fine\n{DEAD}") == "the engine's process 12 is gone"


def test_of_a_pydantic_error_the_first_complaint_is_the_cause() -> None:
    error = (
        "1 validation error for ModelConfig\n"
        "  Value error, User-specified max_model_len (9000) is greater than the derived one (4096). "
        "[type=value_error, input_value=ArgsKwargs((), {'model': '/x'}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.12/v/value_error"
    )
    said = (
        "1 validation error for ModelConfig: Value error, User-specified max_model_len (9000) is greater than the "
        "derived one (4096)."
    )
    assert find_root_cause(error, "") == said
    assert find_root_cause("Engine core initialization failed", f"pydantic_core.ValidationError: {error}") == (
        f"pydantic_core.ValidationError: {said}"
    )


def test_an_engine_that_says_nothing_is_reported_as_such() -> None:
    assert find_root_cause("", "") == "the engine gave no reason"


def test_the_tail_is_the_last_lines() -> None:
    assert tail("a\nb\nc", lines=2) == "b\nc"
