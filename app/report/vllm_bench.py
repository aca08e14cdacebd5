"""Measured trials as `vllm bench serve --save-result` writes them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.measure.columns import Columns, Floats
from app.measure.metrics import PERCENTILES
from app.spec.resolution import ResolvedArm, ResolvedExperiment
from app.stats.sample import explain_no_percentile

Object = dict[str, Any]

DEFINITIONS = {
    "ttft_ms": "first token, by the engine's clock, - sent",
    "tpot_ms": "(e2el - ttft) / (output tokens - 1), of samples with several",
    "itl_ms": "gaps between tokens, by the engine's clock, of all samples; a chunk of k tokens is k equal gaps",
    "e2el_ms": "delivered - sent",
    "request_goodput": "samples within the experiment's service levels, for which latencies count from arrived",
    "client_queue_time_ms": "sent - arrived",
    "e2el_including_client_queue_ms": "delivered - arrived",
    "std": "ddof 0, as numpy.std",
    "percentiles": "null where so few samples do not hold one",
}
_MEAN_AND_MORE = ("mean", "median", "std", *(name for name in PERCENTILES if name != "p50"))


def write(results: Object, resolved: ResolvedExperiment, name: str, requests: Mapping[int, Object]) -> list[Object]:
    """One object per measured trial that counts, with their keys, computed as they do.

    `requests`: what `figures` finds in a trial's request records, by slot; null where they are no longer kept. Unlike
    there, a value that is unknown is null, and a percentile of too few samples is one.
    """
    settings = {arm.name: arm for arm in resolved.arms}
    return [
        describe_trial(trial, settings[trial["arm"]], name) | requests.get(trial["slot"], _NOTHING)
        for trial in results["trials"]
        if trial["phase"] == "measured" and trial["state"] == "succeeded" and trial.get("dropped") is None
    ]


def describe_trial(trial: Object, arm: ResolvedArm, name: str) -> Object:
    """What is known of a trial without its records."""
    metrics = trial["metrics"]
    return {
        "date": trial["started_at"],
        "endpoint_type": arm.driver.api,
        "backend": arm.driver.api,
        "label": arm.name,
        "model_id": arm.model.id,
        "tokenizer_id": arm.model.tokenizer or arm.model.id,
        "experiment": name,
        "trial": trial["slot"],
        "block": trial["block"],
        "duration": metrics.get("duration_s"),
        "request_goodput": metrics.get("request_goodput"),
        **{key: metrics.get(key) for key in ("request_throughput", "output_throughput", "total_token_throughput")},
        "definitions": DEFINITIONS,
    }


def compute_figures(columns: Columns) -> Object:
    """What their object says of a trial's requests.

    Their times run from when a request was sent; the client's queue is a figure of its own (`vllm/benchmarks/serve.py`,
    `calculate_metrics`). Their TPOT ends with the delivery, which in a call that returns with its whole batch is far
    from the engine's last token.
    """
    ttft = columns.first_token_s - columns.sent_s
    e2el = columns.delivered_s - columns.sent_s
    queue = columns.sent_s - columns.arrived_s
    several = columns.output_tokens > 1
    samples = len(columns)
    found: Object = {
        "completed": samples,
        "failed": 0,  # a trial of which a request fails is no measured trial
        "total_input_tokens": int(columns.prompt_tokens.sum()),
        "total_output_tokens": int(columns.output_tokens.sum()),
    }
    for key, values_s in (
        ("ttft", ttft),
        ("tpot", (e2el - ttft)[several] / (columns.output_tokens[several] - 1)),
        ("e2el", e2el),
        ("client_queue_time", queue),
        ("e2el_including_client_queue", e2el + queue),
    ):
        found |= _list_statistics(key, 1000.0 * values_s, samples)
    return found | _list_statistics("itl", columns.itl_ms, samples)


def _list_statistics(key: str, values_ms: Floats | None, samples: int) -> Object:
    """Their names, null where a value is unknown: an average over some samples would be another quantity."""
    if values_ms is None or not len(values_ms) or np.isnan(values_ms).any():
        return {f"{name}_{key}_ms": None for name in _MEAN_AND_MORE}
    found: Object = {
        f"mean_{key}_ms": float(values_ms.mean()),
        f"median_{key}_ms": float(np.median(values_ms)),
        f"std_{key}_ms": float(values_ms.std(ddof=0)),
    }
    for name, percent in PERCENTILES.items():
        if name != "p50":
            few = explain_no_percentile(min(samples, len(values_ms)), percent)
            found[f"{name}_{key}_ms"] = None if few else float(np.percentile(values_ms, percent))
    return found


_KEYS = ("ttft", "tpot", "e2el", "client_queue_time", "e2el_including_client_queue", "itl")
_NOTHING: Object = dict.fromkeys(("completed", "failed", "total_input_tokens", "total_output_tokens")) | {
    key: None for latency in _KEYS for key in _list_statistics(latency, None, 0)
}
