"""Stands in for rollout-lab in test_demo: `serve` answers /readyz and has a child, `submit` takes a moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

MODE = os.environ.get("FAKE_MODE", "")


class Handler(BaseHTTPRequestHandler):
    """Ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()


def keep_pid(pid: int) -> None:
    """For the test to look whether it is gone."""
    with Path(os.environ["ROLLOUT_LAB_DATA_DIR"], "pids").open("a") as pids:
        print(pid, file=pids)


def serve() -> None:
    """Until SIGTERM, which the child hears of unless it is forgotten."""
    if MODE == "crash":
        sys.exit("no such database")
    child = subprocess.Popen(["/bin/sleep", "600"], process_group=0)

    def stop(*_: object) -> NoReturn:
        if MODE != "forgetful":
            child.terminate()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    keep_pid(os.getpid())
    keep_pid(child.pid)
    if MODE == "dies":
        threading.Timer(2, stop).start()
    ThreadingHTTPServer((os.environ["ROLLOUT_LAB_HOST"], int(os.environ["ROLLOUT_LAB_PORT"])), Handler).serve_forever()


def submit(*arguments: str) -> NoReturn:
    """Print what it was asked, wait, and exit as the test wants."""
    keep_pid(os.getpid())
    print(*arguments, "to", os.environ["ROLLOUT_LAB_URL"], flush=True)
    try:
        time.sleep(float(os.environ.get("FAKE_SUBMIT_S", "0")))
    except KeyboardInterrupt:
        print("stopped waiting", flush=True)
        sys.exit(130)
    sys.exit(int(os.environ.get("FAKE_CODE", "0")))


if __name__ == "__main__":
    {"serve": serve, "submit": submit}[sys.argv[1]](*sys.argv[2:])
