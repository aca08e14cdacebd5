"""The line that says why an engine did not start."""

from workers.root_cause import root_cause, tail

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
    assert root_cause(error, ENGINE_LOG) == "ValueError: 2.0 GiB KV cache is needed"


def test_a_qualified_exception_name_is_recognised() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert root_cause("Engine core initialization failed", log) == log


def test_without_a_traceback_the_error_itself_is_the_cause() -> None:
    assert root_cause("first\nOSError: no such model", "INFO all is well") == "OSError: no such model"


def test_an_engine_that_says_nothing_is_reported_as_such() -> None:
    assert root_cause("", "") == "the engine gave no reason"


def test_the_tail_is_the_last_lines() -> None:
    assert tail("a\nb\nc", lines=2) == "b\nc"
