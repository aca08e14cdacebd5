"""Repeat what docs/results/h200.md reports: `python -m benchmarks.gpu [PART ...] --out DIR [--deadline-s S]`.

Starts the real service on SQLite in DIR, submits the parts' experiments one after the other, and writes for each its
results, request records and report page. DIR/digest.json and DIR/tables.md hold what all calls with that DIR found.

A part is experiment `a`, `b4`, `b32`, `b256` (noise; sync against async), `c-limits`, `c-engine`, `c-n`, `c-cache`
(planted settings), `n-quiet`, `n-arm`, `n-trials`, `n-start`, `n-copies` (nobody else on the GPU, and somebody planted
there), `d2048`, `d8192` (output length), or a cost: `e-llm`, `e-async` (the harness against a bare loop), `e-fresh`
(fresh processes against the service). Each takes less than 9 minutes on an H200 whose disk and compile cache are warm,
but `e-fresh`, which goes on where it was when it is called again. All parts run where none is named.
"""

import argparse
from pathlib import Path

from benchmarks.gpu import fresh, harness
from benchmarks.gpu.budget import Deadline
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.runner import Runner

ORDER = (*PARTS, *harness.DRIVERS, fresh.PART)


def main() -> None:
    """Run what was asked for, in the order it was."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(ORDER))
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="directory of everything written")
    parser.add_argument("--deadline-s", type=float, help="be over by then: blocks are left out, or whole parts")
    parser.add_argument("--estimate", action="store_true", help="only say what the parts would take on an H200")
    parser.add_argument("--model", help="another preset, such as tiny-qwen2 for a machine without a GPU")
    parser.add_argument("--tokens", type=int, help="another output length")
    parser.add_argument("--blocks", type=int, help="another number of blocks, or pairs")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(ORDER))
    if unknown:
        parser.error(f"unknown parts: {', '.join(unknown)}; there are {', '.join(ORDER)}")
    names = options.parts or ORDER
    deadline = Deadline.after(options.deadline_s)
    with Runner(options, deadline) as runner:
        if options.estimate:
            runner.estimate(names)
        else:
            runner.run(names)


if __name__ == "__main__":
    main()
