"""The line of an engine's log that says why it did not start, or why it died."""

import re

# "(EngineCore pid=12) ERROR 11-30 02:50:12 [core.py:900] ValueError: ..." -> "ValueError: ..."
_PREFIX = re.compile(r"^(\([^)]*\)\s*)?((ERROR|WARNING|INFO|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\]\s?)?")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Killed)\b(?:: .+)?$")
# What vLLM's front end says when its engine core failed: true, but not the cause.
_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|EngineDeadError"
    r"|EngineCore encountered an issue|Engine core proc \S+ died unexpectedly"
)
_POINTER = re.compile(r"\s*See (?:root cause|stack trace) \(?above\)?(?: for the root cause)?\.?")
# pydantic counts what is wrong in the first line, says it in those that follow, and ends with an address.
_COUNTED = re.compile(r"ValidationError: \d+ validation errors? for |^\d+ validation errors? for ")
# What to do about an exception that says nothing of it.
_ADVICE = {
    "CPU Generator does not use offset": "on a CPU vLLM cannot split a prompt whose request has a seed: leave "
    "engine.enable_chunked_prefill and engine.max_num_batched_tokens out, or set "
    "workload.sampling.per_request_seed: false",
}
_INPUT = re.compile(r" \[type=.*")
_ADDRESS = re.compile(r"^For further information visit ")


def find_root_cause(error: str, log: str) -> str:
    """The first exception the log shows that is not the mere consequence of another; else what ``error`` says."""
    lines = _strip_prefixes(log)
    for number, line in enumerate(lines):
        if _RAISED.match(line) and not _CONSEQUENCE.search(line):
            return _tell(lines[number:])
    said = [line for line in _strip_prefixes(error) if line and not _ADDRESS.match(line)]
    if not said:
        return "the engine gave no reason"
    counted = [number for number, line in enumerate(said) if _COUNTED.search(line)]
    if counted:
        return _tell(said[counted[0] :])
    if _CONSEQUENCE.search(said[-1]):
        # No exception anywhere: the core was killed, by somebody or by the kernel for want of memory.
        return f"{_POINTER.sub('', said[-1])} (the log shows no exception: was a process killed, or out of memory?)"
    return _tell(said[-1:])


def tail(log: str, lines: int = 40) -> str:
    """The last lines of a log."""
    return "\n".join(log.splitlines()[-lines:])


def _tell(lines: list[str]) -> str:
    """The exception that these lines begin with, of a pydantic error its first complaint too; and what to do."""
    if not _COUNTED.search(lines[0]):
        advice = [told for said, told in _ADVICE.items() if said in lines[0]]
        return f"{lines[0]} ({advice[0]})" if advice else lines[0]
    complaints = [_INPUT.sub("", line) for line in lines[1:4] if _INPUT.search(line)]
    return f"{lines[0]}: {complaints[0]}" if complaints else lines[0]


def _strip_prefixes(text: str) -> list[str]:
    return [_PREFIX.sub("", line).strip() for line in text.splitlines()]
