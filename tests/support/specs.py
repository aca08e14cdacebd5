"""Specs on the wire."""

from typing import Any

SPEC: dict[str, Any] = {
    "name": "sync against async",
    "labels": {"suite": "nightly"},
    "model": {"preset": "tiny-qwen2"},
    "workload": {
        "prompts": {"source": "synthetic", "count": 2, "tokens": {"distribution": "fixed", "value": 8}},
        "samples_per_prompt": 2,
        "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": 10}},
    },
    "arms": [
        {"name": "sync", "profile": "simulated", "driver": {"seconds_per_token": 0.010}},
        {"name": "async", "profile": "simulated", "driver": {"seconds_per_token": 0.012}},
    ],
}

YAML = """\
name: sync against async
labels: {suite: nightly}
model: {preset: tiny-qwen2}
arms:
  - {name: sync, profile: simulated}
  - {name: async, profile: simulated}
"""


def a_spec(**changes: Any) -> dict[str, Any]:
    """SPEC with other top-level fields."""
    return SPEC | changes
