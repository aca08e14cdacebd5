"""The line of an engine's log that says why it did not start."""

import re

# "(EngineCore pid=12) ERROR 11-30 02:50:12 [core.py:900] ValueError: ..." -> "ValueError: ..."
_PREFIX = re.compile(r"^(\([^)]*\)\s*)?((ERROR|WARNING|INFO|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\]\s?)?")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Killed)\b(?:: .+)?$")
# What vLLM's front end says when its engine core failed: true, but not the cause.
_CONSEQUENCE = re.compile(r"Engine core initialization failed|WorkerProc initialization failed|EngineDeadError")


def root_cause(error: str, log: str) -> str:
    """The first exception the log shows that is not the mere consequence of another; else ``error``'s last line."""
    raised = [line for line in _lines(log) if _RAISED.match(line)]
    causes = [line for line in raised if not _CONSEQUENCE.search(line)]
    if causes:
        return causes[0]
    last = [line for line in _lines(error) if line]
    return last[-1] if last else "the engine gave no reason"


def tail(log: str, lines: int = 40) -> str:
    """The last lines of a log."""
    return "\n".join(log.splitlines()[-lines:])


def _lines(text: str) -> list[str]:
    return [_PREFIX.sub("", line).strip() for line in text.splitlines()]
