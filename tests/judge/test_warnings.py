"""What limits the results is said, and nothing is dropped for it."""

import pytest

from app.judge.comparison import compare
from app.judge.verdict import PER_GPU, Comparison
from app.judge.warnings import ResultWarning, WarningCode, warn_of_outliers
from app.spec.resolution import resolve
from tests.support.builders import a_spec, a_trial

STEADY = (100.1, 99.9, 100.0, 100.2, 99.8, 100.1)


def compared(candidate: tuple[float, ...]) -> Comparison:
    spec = a_spec()
    trials = [
        trial
        for block, throughput in enumerate(candidate)
        for trial in (
            a_trial("sync", block, block % 2, 100.0, slot=2 * block + block % 2),
            a_trial("async", block, 1 - block % 2, throughput, slot=2 * block + 1 - block % 2),
        )
    ]
    return compare(spec, resolve(spec), trials, ())[0]


def warnings(candidate: tuple[float, ...]) -> list[ResultWarning]:
    return list(warn_of_outliers([compared(candidate)]))


def test_blocks_that_agree_need_no_word() -> None:
    assert warnings(STEADY) == []


def test_the_block_and_what_hangs_on_it_are_named() -> None:
    (warning,) = warnings((88.0, *STEADY[1:]))
    assert warning.code is WarningCode.OUTLYING_BLOCK
    assert warning.arm == "async"
    assert warning.detail.startswith("Block 0 stands apart: −12.0 %, where the others average 0.0 %.")
    assert "without it the change would be" in warning.detail


def test_what_is_said_without_the_block_is_what_the_others_alone_would_say() -> None:
    (warning,) = warnings((88.0, *STEADY[1:]))
    alone = compared(STEADY[1:])
    assert alone.change_pct == pytest.approx(0.0, abs=0.05)
    assert alone.interval_pct is not None
    assert f"{alone.interval_pct[1]:+.2f}".rstrip("0") in warning.detail.replace("−", "-")


def test_the_block_still_counts() -> None:
    comparison = compared((88.0, *STEADY[1:]))
    assert comparison.pairs == 6
    assert comparison.change_pct == pytest.approx(-2.1, abs=0.1)


def test_where_gpus_are_unequal_the_block_stands_apart_per_gpu() -> None:
    """The verdict is read there, and that is what the warning has to be about."""
    main = compared((88.0, *STEADY[1:]))
    per_gpu = main.model_copy(update={"metric": PER_GPU})
    steady = compared(STEADY)
    assert len(list(warn_of_outliers([per_gpu, steady]))) == 1
    assert list(warn_of_outliers([steady.model_copy(update={"metric": PER_GPU}), main])) == []
