"""What the prompts file of an experiment may be, and that nothing it is can hang the worker."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import Cancelled, InvalidWorkload
from app.spec.experiment import Limits
from app.spec.resolution import resolve
from benchmarks.support.service import eventually
from tests.support.builders import a_spec
from workers import prompts
from workers.prompts import Prompt, open_prompts, read_prompts
from workers.watch import Watch

ANYWHERE = ("/",)


def ask_nothing() -> None:
    """A watch that sees no end."""


def read(path: Path | str, check: Callable[[], None] = ask_nothing, **source: Any) -> tuple[Prompt, ...] | None:
    spec = a_spec(workload={"prompts": {"source": "file", "path": str(path), **source}})
    return read_prompts(spec, resolve(spec), ANYWHERE, check)


def jsonl(directory: Path, *rows: object) -> Path:
    path = directory / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def parquet(directory: Path, **columns: Any) -> Path:
    path = directory / "prompts.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_text_and_token_ids_come_from_jsonl_and_parquet(tmp_path: Path) -> None:
    rows: list[Any] = ["ab", [7, 8], "d"]
    assert read(jsonl(tmp_path, *({"q": row} for row in rows)), column="q", count=2) == ("ab", (7, 8))
    assert read(parquet(tmp_path, q=["ab", "c", "d"]), column="q", count=2) == ("ab", "c")
    assert read(parquet(tmp_path, prompt=[[1, 2], [3]])) == ((1, 2), (3,))


def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(jsonl(tmp_path, {"prompt": "a"}))
    assert read(link) == ("a",)


def test_prompts_that_are_not_in_a_file_are_not_read() -> None:
    spec = a_spec()
    assert read_prompts(spec, resolve(spec), ANYWHERE, ask_nothing) is None


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def nothing(path: Path) -> None:
    """No such file."""


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (nothing, "No such file"),
        (Path.mkdir, "is a directory"),
        (a_fifo, "is a FIFO"),
        (a_socket, "is a socket"),
        (a_device, "is a device"),
        (a_loop, r"loop|symbolic links"),
    ],
)
def test_only_a_regular_file_is_opened_and_nothing_else_is_waited_for(
    tmp_path: Path, make: Callable[[Path], None], complaint: str, suffix: str
) -> None:
    path = tmp_path / f"p{suffix}"
    make(path)
    began = time.monotonic()
    with pytest.raises(InvalidWorkload, match=complaint) as failure:
        read(path)
    assert "workload.prompts.path" in failure.value.detail
    assert str(path) in failure.value.detail
    assert time.monotonic() - began < 5.0


def test_a_file_replaced_by_a_fifo_as_it_is_opened_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    os.mkfifo(path)
    regular = Path(__file__).stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: regular)
    with pytest.raises(InvalidWorkload, match="is a FIFO"):
        open_prompts(str(path), ANYWHERE)


@pytest.mark.parametrize(
    "address", ["s3://bucket/p.parquet", "hf://datasets/p.parquet", "file:///etc/p.jsonl", "http://host/p.jsonl"]
)
def test_an_address_is_a_name_like_any_other_and_nothing_is_fetched(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    with pytest.raises(InvalidWorkload, match="No such file"):
        read(address)


def test_a_file_nobody_may_read_is_named() -> None:
    code = (
        "import os, sys\nfrom workers.prompts import open_prompts\nfrom app.errors import InvalidWorkload\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try:\n    open_prompts(sys.argv[1], ('/',))\nexcept InvalidWorkload as error:\n    print(error.detail)\n"
    )
    with tempfile.TemporaryDirectory() as directory:  # pytest's own directories may be entered by one user only
        Path(directory).chmod(0o755)
        path = jsonl(Path(directory), {"prompt": "a"})
        path.chmod(0)
        found = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
    assert "Permission denied" in found.stdout
    assert str(path) in found.stdout


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("not json", "line 2: not JSON"),
        ("", "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ('{"other": "x"}', "line 2: no 'prompt'"),
        ("[]", "line 2: no 'prompt'"),
        ('{"prompt": 3}', "line 2: a prompt is text or a list of token ids"),
        ('{"prompt": ""}', "line 2: a prompt is"),
        ('{"prompt": []}', "line 2: a prompt is"),
        ('{"prompt": [1, -2]}', "line 2: a prompt is"),
        ('{"prompt": [1, true]}', "line 2: a prompt is"),
        ('{"prompt": [1e400]}', "line 2: a prompt is"),
        (f'{{"prompt": [{2**80}]}}', "line 2: a prompt is"),
        ('{"prompt": "\\ud800"}', "line 2: half of a surrogate pair"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"prompt": "fine"}}\n{row}\n{{"prompt": "fine"}}')
    with pytest.raises(InvalidWorkload, match=complaint) as failure:
        read(path)
    assert str(path) in failure.value.detail


def test_bytes_that_are_no_text_are_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"prompt": "\xff\xfe"}')
    with pytest.raises(InvalidWorkload, match="line 1: not JSON"):
        read(path)


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.parquet"])
def test_an_empty_file_holds_no_prompts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    with pytest.raises(InvalidWorkload, match=r"holds no prompts|cannot be read as Parquet"):
        read(path)


def test_a_wrong_column_is_named_and_the_others_are_not_told(tmp_path: Path) -> None:
    for path in (jsonl(tmp_path, {"secret": "x"}), parquet(tmp_path, secret=["x"])):
        with pytest.raises(InvalidWorkload, match=r"no column 'prompt'|no 'prompt'") as failure:
            read(path)
        assert "secret" not in failure.value.detail


def test_a_bad_parquet_row_is_named_with_file_and_row(tmp_path: Path) -> None:
    for values in (["fine", None], [[1], [-1]], [{"a": 1}, {"a": 2}]):
        path = parquet(tmp_path, prompt=values)
        with pytest.raises(InvalidWorkload, match=r"row [12]: a prompt is text or a list of token ids") as failure:
            read(path)
        assert str(path) in failure.value.detail


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = parquet(tmp_path, prompt=["text " * 50] * 1000)
    whole = path.read_bytes()
    for broken in (whole[:-20], b"PAR1" + bytes(len(whole) - 8) + b"PAR1", whole[:100] + bytes(300) + whole[400:]):
        path.write_bytes(broken)
        with pytest.raises(InvalidWorkload, match="cannot be read as Parquet") as failure:
            read(path)
        assert str(path) in failure.value.detail


def test_token_ids_that_do_not_fit_are_named_before_any_engine_starts(tmp_path: Path) -> None:
    spec = a_spec(
        engine={"max_model_len": 200},
        workload={"prompts": {"source": "file", "path": str(jsonl(tmp_path, {"prompt": [1]}, {"prompt": [1] * 100}))}},
    )
    with pytest.raises(InvalidWorkload, match=r"line 2: 100 tokens; .* leaves room for 72"):
        read_prompts(spec, resolve(spec), ANYWHERE, ask_nothing)


def test_more_prompts_than_an_experiment_may_have_are_refused_unless_it_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text('{"prompt": "a"}\n' * 100_001)
    with pytest.raises(InvalidWorkload, match="line 100001: more than 100,000 prompts"):
        read(path)
    found = read(path, count=100_000)
    assert found is not None
    assert len(found) == 100_000


def test_a_huge_file_costs_no_more_than_the_prompts_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jsonl"
    with path.open("wb") as file:
        file.write(b'{"prompt": "a"}\n')
        file.truncate(1 << 42)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read(path, count=1) == ("a",)
    with pytest.raises(InvalidWorkload, match="line 2: longer than 16 MiB"):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "KiB"


def test_the_prompts_in_memory_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "_MOST_BYTES", 1000)
    assert read(jsonl(tmp_path, {"prompt": "x" * 1000})) is not None
    for path in (
        jsonl(tmp_path, *({"prompt": "x" * 400} for _ in range(3))),
        parquet(tmp_path, prompt=pa.array(["x" * 400] * 3).dictionary_encode()),
        jsonl(tmp_path, {"prompt": [1] * 50}),
    ):
        with pytest.raises(InvalidWorkload, match="more than 1 GiB"):
            read(path)


def test_a_cancel_ends_the_reading_even_where_the_file_system_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    opened = threading.Event()

    def open_never(path: str, roots: tuple[str, ...]) -> None:
        opened.set()
        answers.wait()
        raise InvalidWorkload(f"{path} below {roots}")

    monkeypatch.setattr(prompts, "open_prompts", open_never)
    watch = Watch(Limits())

    def cancel() -> None:
        opened.wait()
        watch.cancelled.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        read(jsonl(tmp_path, {"prompt": "a"}), watch.check)
    assert time.monotonic() - began < 5.0
    answers.set()
    canceller.join()


def test_a_cancelled_reading_goes_on_in_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text('{"prompt": "a"}\n' * 100_000)
    watch = Watch(Limits())
    watch.cancelled.set()
    with pytest.raises(Cancelled):
        read(path, watch.check)
    eventually(lambda: all(thread.name != "read-prompts" for thread in threading.enumerate()), 5.0)
