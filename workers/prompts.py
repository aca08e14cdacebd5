"""The prompts file of an experiment: read before any engine starts, in bounded time and memory."""

import itertools
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import BinaryIO

from app.errors import InvalidWorkload
from app.spec.experiment import Experiment
from app.spec.resolution import ResolvedExperiment, most_prompt_tokens
from app.spec.workload import FilePrompts

Prompt = str | tuple[int, ...]
Row = tuple[str, object]  # where it stands, and what is in the column

_MOST_PROMPTS = 100_000  # as many as workload.prompts.count may name
_MOST_LINE_BYTES = 16 << 20
_MOST_BYTES = 1 << 30  # of all prompts in memory
_ID_BYTES = 40  # an int above 256 and its place in a tuple
_MOST_ID = 2**31 - 1
_BATCH_ROWS = 64  # a Parquet dictionary may hold one long value for very many rows
_LOOK_EVERY_S = 0.2
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_prompts(path: str, roots: tuple[str, ...]) -> BinaryIO:
    """Open a prompts file: a regular file below one of the roots, whatever links lead to it. Never waits for a writer.

    A path that is not absolute is one from a root on, of several the first that has it.

    Whoever reads gets the open file, not its name, which a library could take for an address in the network.
    """
    try:
        candidates = [Path(root) / path for root in roots]
        found = next((one for one in candidates if one.exists()), candidates[0]).resolve(strict=True)
        _require_below(path, found, roots)
        _require_regular(path, found.stat().st_mode)  # opening a device may already do something
        descriptor = os.open(found, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError is a loop of links, ValueError a null byte
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidWorkload(f"workload.prompts.path: {path} on the worker's host: {reason}") from None
    file = open(descriptor, "rb")  # noqa: PTH123, SIM115 - of a descriptor, for the caller
    try:
        # It, or a folder on the way to it, may have been replaced in between.
        _require_regular(path, os.fstat(descriptor).st_mode)
        _require_below(path, Path(f"/proc/self/fd/{descriptor}").readlink(), roots)
    except InvalidWorkload:
        file.close()
        raise
    return file


def read_prompts(
    spec: Experiment, resolved: ResolvedExperiment, roots: tuple[str, ...], check: Callable[[], None]
) -> tuple[Prompt, ...] | None:
    """The prompts of the experiment's file, text not encoded yet; None if it names none.

    ``check`` is called again and again and ends the reading by raising, even while a file system does not answer.
    Raises InvalidWorkload naming file and row.
    """
    source = spec.workload.prompts
    if not isinstance(source, FilePrompts):
        return None
    room = most_prompt_tokens(spec, resolved)
    done: Future[tuple[Prompt, ...]] = Future()

    def read() -> None:
        try:
            done.set_result(_read_all(source, room, roots, check))
        except Exception as error:  # noqa: BLE001 - raised where the result is waited for
            done.set_exception(error)

    threading.Thread(target=read, name="read-prompts", daemon=True).start()
    while not wait([done], timeout=_LOOK_EVERY_S).done:
        check()
    return done.result()


def _read_all(
    source: FilePrompts, room: int | None, roots: tuple[str, ...], check: Callable[[], None]
) -> tuple[Prompt, ...]:
    prompts: list[Prompt] = []
    size = 0
    with open_prompts(source.path, roots) as file:
        rows = _read_parquet(source, file) if source.path.endswith(".parquet") else _read_jsonl(source, file)
        for where, value in itertools.islice(rows, source.count):
            check()
            prompt = _check_prompt(value, where, room)
            size += len(prompt) * (1 if isinstance(prompt, str) else _ID_BYTES)
            if len(prompts) == _MOST_PROMPTS:
                raise InvalidWorkload(f"{where}: more than {_MOST_PROMPTS:,} prompts; say workload.prompts.count")
            if size > _MOST_BYTES:
                raise InvalidWorkload(f"{where}: the prompts take more than 1 GiB; say workload.prompts.count")
            prompts.append(prompt)
    if not prompts:
        raise InvalidWorkload(f"workload.prompts.path: {source.path} holds no prompts")
    return tuple(prompts)


def _read_jsonl(source: FilePrompts, file: BinaryIO) -> Iterator[Row]:
    for number in itertools.count(1):
        where = f"{source.path}, line {number}"
        line = file.readline(_MOST_LINE_BYTES + 1)
        if not line:
            return
        if len(line) > _MOST_LINE_BYTES:
            raise InvalidWorkload(f"{where}: longer than {_MOST_LINE_BYTES >> 20} MiB")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidWorkload(f"{where}: not JSON ({error})") from None
        if not isinstance(row, dict) or source.column not in row:
            raise InvalidWorkload(f"{where}: no {source.column!r}")
        yield where, row[source.column]


def _read_parquet(source: FilePrompts, file: BinaryIO) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        if source.column not in parquet.schema_arrow.names:
            raise InvalidWorkload(f"{source.path}: no column {source.column!r}")
        batches = parquet.iter_batches(_BATCH_ROWS, columns=[source.column], use_threads=False)
        values = (value for batch in batches for value in batch.column(0))
        for number, value in enumerate(values, start=1):
            yield f"{source.path}, row {number}", value.as_py()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidWorkload(f"{source.path}: cannot be read as Parquet ({reason})") from None


def _check_prompt(value: object, where: str, room: int | None) -> Prompt:
    if isinstance(value, str) and value:
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InvalidWorkload(f"{where}: half of a surrogate pair, which no tokenizer can encode")
        return value
    if isinstance(value, list) and value and all(type(item) is int and 0 <= item <= _MOST_ID for item in value):
        if room is not None and len(value) > room:
            raise InvalidWorkload(
                f"{where}: {len(value)} tokens; with the longest output, max_model_len leaves room for {room}"
            )
        return tuple(value)
    raise InvalidWorkload(f"{where}: a prompt is text or a list of token ids")


def _require_below(path: str, found: Path, roots: tuple[str, ...]) -> None:
    if not any(found.is_relative_to(Path(root).resolve()) for root in roots):
        raise InvalidWorkload(f"workload.prompts.path: {path} leads out of {', '.join(roots)}")


def _require_regular(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
        raise InvalidWorkload(f"workload.prompts.path: {path} is {kind}; a regular file is needed")
