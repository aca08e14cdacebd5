"""Ten thousand specs that are wrong somewhere: every one is refused in words, or resolved, and soon."""

import json
import time

import pytest

from app.errors import InvalidInput
from app.spec.parsing import parse_experiment
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.spec.values import MOST_TRIALS
from tests.support.malformed import malformed

CASES = 10_000
LONGEST_S = 0.1  # of processor time: the machine may be busy
LONGEST_DETAIL = 2_000


def outcome(document: object) -> str:
    """What becomes of a document: `planned`, or what is said against it."""
    refused: InvalidInput | None = None
    try:
        spec = parse_experiment(document)
        plan = plan_trials(spec, resolve(spec))
        assert len(plan.trials) <= MOST_TRIALS
    except InvalidInput as error:
        refused = error
    if refused is None:
        return "planned"
    assert refused.errors
    assert all(len(one.pointer) + len(one.detail) <= LONGEST_DETAIL for one in refused.errors)
    return refused.detail


def test_no_malformed_spec_does_more_than_be_refused_and_none_takes_long() -> None:
    slow, planned = [], 0
    for document in malformed(CASES):
        began = time.process_time()
        said = outcome(document)
        took = time.process_time() - began
        planned += said == "planned"
        if took > LONGEST_S:
            slow.append((round(took, 3), json.dumps(document)[:300]))
    assert slow == []
    assert CASES / 100 < planned < CASES / 2  # neither all noise nor all sound


@pytest.mark.parametrize("value", ["6", True, None, 6.5, [6], {"value": 6}])
def test_a_number_is_no_other_kind_of_value(value: object) -> None:
    document = {
        "model": {"preset": "tiny-qwen2"},
        "arms": [{"name": "a", "profile": "simulated"}],
        "plan": {"blocks": value},
    }
    assert outcome(document).startswith("/plan/blocks: must be a whole number")
