"""The noise floors that A/A experiments left."""

import dataclasses
from collections.abc import Collection

from sqlalchemy import ColumnElement, select

from app.judge.noise import Noise, NoiseKeys
from app.stats.starts import StartValue
from app.store.database import Database
from app.store.dialects import insert_unless_present
from app.store.lease import Lease, update_fenced
from app.store.tables import noise

NEWEST = 10  # older ones say less of the host as it is now


def keep_noise(db: Database, lease: Lease, keys: NoiseKeys, found: Noise) -> None:
    """Keep what an A/A experiment found, while its attempt is ours. Saying it twice is no error."""
    row = {
        "experiment_id": lease.experiment_id,
        "fingerprint": keys.fingerprint,
        "settings": keys.settings,
        "sd_pct": found.sd_pct,
        "change_pct": found.change_pct,
        "blocks": found.blocks,
        "starts": None
        if found.starts is None
        else {key: [dataclasses.astuple(value) for value in values] for key, values in found.starts.items()},
    }
    with db.write() as connection:
        update_fenced(connection, lease)
        insert_unless_present(connection, noise, row, ("experiment_id",), now=("kept_at",))


def read_noise_under(db: Database, fingerprints: Collection[str]) -> tuple[Noise, ...]:
    """The newest A/A experiments of exactly these arms, on this host with this software."""
    return _read_newest(db, noise.c.fingerprint.in_(fingerprints))


def read_noise_anywhere(db: Database, settings: Collection[str]) -> tuple[Noise, ...]:
    """The newest A/A experiments of arms with these settings, on whatever host."""
    return _read_newest(db, noise.c.settings.in_(settings))


def _read_newest(db: Database, condition: ColumnElement[bool]) -> tuple[Noise, ...]:
    query = (
        select(noise.c.sd_pct, noise.c.change_pct, noise.c.blocks, noise.c.starts)
        .where(condition)
        .order_by(noise.c.kept_at.desc(), noise.c.experiment_id)
        .limit(NEWEST)
    )
    with db.read() as connection:
        return tuple(
            Noise(row.sd_pct, row.change_pct, row.blocks, _parse(row.starts)) for row in connection.execute(query)
        )


def _parse(
    document: dict[str, list[tuple[float, int, float]]] | None,
) -> dict[str, tuple[StartValue, ...]] | None:
    if document is None:
        return None
    return {key: tuple(StartValue(*value) for value in values) for key, values in document.items()}
