"""Request records and engine samples as Parquet: one compressed blob per trial."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.measure.columns import Columns
from app.measure.records import EngineSample, RequestRecord

RECORD_SCHEMA = pa.schema(
    [
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("prompt_index", pa.int32(), nullable=False),
        pa.field("sample_index", pa.int32(), nullable=False),
        pa.field("replica", pa.int32(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("output_tokens", pa.int32(), nullable=False),
        pa.field("cached_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),
        pa.field("output_sha256", pa.string(), nullable=False),
        pa.field("arrived_s", pa.float64(), nullable=False),
        pa.field("sent_s", pa.float64(), nullable=False),
        pa.field("received_s", pa.float64()),
        pa.field("prepared_s", pa.float64()),
        pa.field("queued_s", pa.float64()),
        pa.field("scheduled_s", pa.float64()),
        pa.field("first_token_s", pa.float64()),
        pa.field("last_token_s", pa.float64()),
        pa.field("left_s", pa.float64()),
        pa.field("delivered_s", pa.float64(), nullable=False),
        pa.field("agent_worker", pa.int32()),
        pa.field("preemptions", pa.int32()),
        # A gap is known to a microsecond at best: 24 bits of it are enough, and most of a file is gaps.
        pa.field("itl_ms", pa.list_(pa.float32())),
    ]
)

SAMPLE_SCHEMA = pa.schema(
    [
        pa.field("at_s", pa.float64(), nullable=False),
        pa.field("running", pa.int32(), nullable=False),
        pa.field("waiting", pa.int32(), nullable=False),
        pa.field("kv_cache_usage_pct", pa.float64(), nullable=False),
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("output_tokens", pa.int32(), nullable=False),
        pa.field("preemptions", pa.int32(), nullable=False),
        pa.field("drafts", pa.int32()),
        pa.field("draft_tokens", pa.int32()),
        pa.field("accepted_tokens", pa.int32()),
    ]
)


def tabulate_records(records: Sequence[RequestRecord]) -> pa.Table:
    """One row per record, one column per field."""
    return _build_table(records, RECORD_SCHEMA)


def list_records(table: pa.Table) -> tuple[RequestRecord, ...]:
    """The records a table was made of."""
    columns = table.to_pydict()
    columns["itl_ms"] = [None if gaps is None else tuple(gaps) for gaps in columns["itl_ms"]]
    return tuple(RequestRecord(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def read_columns(table: pa.Table) -> Columns:
    """The columns of the records a table was made of."""
    gaps = table["itl_ms"]
    pooled = None if gaps.null_count else gaps.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return Columns.read(
        lambda name: table[name].to_numpy(zero_copy_only=False),
        None if pooled is None else np.asarray(pooled, dtype=np.float64),
    )


def tabulate_samples(samples: Sequence[EngineSample]) -> pa.Table:
    """One row per sample, one column per field."""
    return _build_table(samples, SAMPLE_SCHEMA)


def list_samples(table: pa.Table) -> tuple[EngineSample, ...]:
    """The samples a table was made of."""
    columns = table.to_pydict()
    return tuple(EngineSample(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def write_parquet(table: pa.Table) -> bytes:
    """Compressed with zstd."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def read_parquet(blob: bytes, schema: pa.Schema) -> pa.Table:
    """The table a blob was made of. What an earlier version, which wrote it, did not know is null."""
    table = pq.read_table(pa.BufferReader(blob))
    stored = {name: table[name] for name in table.column_names}
    return pa.table({field.name: stored.get(field.name, pa.nulls(len(table), field.type)) for field in schema}, schema)


def _build_table(rows: Iterable[object], schema: pa.Schema) -> pa.Table:
    rows = tuple(rows)
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)
