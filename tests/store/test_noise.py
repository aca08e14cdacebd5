"""The noise floors that A/A experiments leave."""

from app.experiment.noise import Noise, NoiseKeys
from app.store import queue
from app.store.engine import Database
from app.store.noise import keep_noise, noise_anywhere, noise_under
from tests.builders import a_simulated_spec


def test_noise_is_found_by_what_exactly_ran_and_by_its_settings(db: Database) -> None:
    experiment = queue.enqueue(db, a_simulated_spec()).experiment_id
    found = Noise(sd_pct=0.5, change_pct=-0.1, blocks=6)
    keep_noise(db, experiment, NoiseKeys(fingerprint="here", settings="arm"), found)
    assert noise_under(db, ["here", "elsewhere"]) == (found,)
    assert noise_under(db, ["elsewhere"]) == ()
    assert noise_anywhere(db, ["arm"]) == (found,)


def test_saying_it_twice_keeps_it_once(db: Database) -> None:
    experiment = queue.enqueue(db, a_simulated_spec()).experiment_id
    keys = NoiseKeys(fingerprint="here", settings="arm")
    for _ in range(2):
        keep_noise(db, experiment, keys, Noise(sd_pct=0.5, change_pct=-0.1, blocks=6))
    assert len(noise_under(db, ["here"])) == 1
