"""Results as a comment."""

from app.report import markdown
from tests.support.documents import SPEC, a_document


def test_it_says_what_was_found() -> None:
    lines = markdown.write(a_document(), SPEC.name).splitlines()
    assert lines[0] == r"### sync \| async"
    assert lines[2].startswith("**")
    assert "| arm | trials | output tokens/s (± sd of trials) | latency p50 ms | p90 ms | p99 ms |" in lines
    assert any(line.startswith("| sync (simulated@1) | 6 | 100.2 ± 0.18 | 12.00 | – | – |") for line in lines)
    assert "async against sync:" in lines
    assert any(line.startswith(r"| output\_throughput (primary) | −20.") and "slower |" in line for line in lines)
    assert any(line.startswith("- fairness: ") for line in lines)


def test_a_comment_on_nothing_is_short() -> None:
    assert markdown.write(a_document(blocks=0), "").startswith("### 0f8e\n")
