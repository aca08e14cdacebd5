"""One service for all end-to-end tests: its Ray takes seconds to start, its engines more."""

from collections.abc import Iterator

import pytest

from benchmarks.support.lab import Lab, running_lab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running service."""
    with running_lab(tmp_path_factory.mktemp("lab")) as found:
        yield found
