"""The noise floors that A/A experiments leave."""

import dataclasses

import pytest

from app.errors import LeaseLost
from app.judge.noise import Noise, NoiseKeys
from app.stats.starts import StartValue
from app.store import queue
from app.store.database import Database
from app.store.lease import Lease
from app.store.noise import keep_noise, read_noise_anywhere, read_noise_under
from tests.support.builders import a_simulated_spec


def a_claim(db: Database, lease_s: float = 60.0) -> Lease:
    """The lease of an experiment that runs."""
    queue.enqueue(db, a_simulated_spec())
    claim = queue.claim(db, "worker", lease_s)
    assert claim is not None
    return claim.lease


def test_noise_is_found_by_what_exactly_ran_and_by_its_settings(db: Database) -> None:
    lease = a_claim(db)
    found = Noise(sd_pct=0.5, change_pct=-0.1, blocks=6)
    keep_noise(db, lease, NoiseKeys(fingerprint="here", settings="arm"), found)
    assert read_noise_under(db, ["here", "elsewhere"]) == (found,)
    assert read_noise_under(db, ["elsewhere"]) == ()
    assert read_noise_anywhere(db, ["arm"]) == (found,)


def test_what_every_start_gave_is_kept_by_metric(db: Database) -> None:
    found = Noise(0.5, -0.1, 6, {"ttft_ms.mean": (StartValue(0.01, 3, 0.002), StartValue(-0.02, 3, 0.002))})
    keep_noise(db, a_claim(db), NoiseKeys(fingerprint="here", settings="arm"), found)
    assert read_noise_under(db, ["here"]) == (found,)


def test_saying_it_twice_keeps_it_once(db: Database) -> None:
    lease = a_claim(db)
    keys = NoiseKeys(fingerprint="here", settings="arm")
    for _ in range(2):
        keep_noise(db, lease, keys, Noise(sd_pct=0.5, change_pct=-0.1, blocks=6))
    assert len(read_noise_under(db, ["here"])) == 1


def test_a_worker_that_lost_its_lease_keeps_no_noise(db: Database) -> None:
    stale = dataclasses.replace(a_claim(db), attempt=7)
    with pytest.raises(LeaseLost):
        keep_noise(db, stale, NoiseKeys(fingerprint="here", settings="arm"), Noise(0.5, 0.1, 6))
    assert read_noise_under(db, ["here"]) == ()
