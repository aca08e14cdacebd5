"""python -m tests.supervised DIRECTORY: a supervisor with two children that are cheap to start."""

import os
import sys
from pathlib import Path

from app.logging import configure_logging
from app.settings import Settings
from app.supervisor import Child, Supervisor

# Says that it runs, has a child of its own, and takes its time to end.
STUB = """
sleep 600 &
echo "$$ $!" >> "$0"
trap 'sleep "${DRAIN_S:-0}"; echo drained >> "$0"; exit 0' TERM
[ -n "$DIES" ] && exit 3
wait
"""


def main() -> None:
    """Until a signal."""
    configure_logging(Settings())
    directory = Path(sys.argv[1])
    Supervisor(
        [
            Child(name, ["sh", "-c", STUB, str(directory / name)], drain_s=600.0, environment=os.environ | extra)
            for name, extra in (("api", {"DRAIN_S": "0", "DIES": ""}), ("worker", {}))
        ]
    ).run()


if __name__ == "__main__":
    main()
