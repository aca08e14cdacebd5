"""Python's garbage collector and the processes that serve requests."""

import gc


def freeze_heap() -> None:
    """Take all that has been loaded so far out of garbage collection.

    A full collection walks every object of the process, 660,000 once vLLM is loaded, and holds it up for a third of a
    second. It comes when enough new objects are kept, and so to the arm whose driver makes most of them. vLLM freezes
    the heaps of its server and its engine core for that reason (`vllm.utils.gc_utils.freeze_gc_heap`).
    """
    gc.collect()
    gc.freeze()
