"""Names of stored things."""

import secrets
from typing import NewType

ExperimentId = NewType("ExperimentId", str)


def make_experiment_id() -> ExperimentId:
    """16 hexadecimal characters."""
    return ExperimentId(secrets.token_hex(8))
