"""The one place that reads ROLLOUT_LAB_* environment variables."""

import shlex
import sys
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings of the service and the worker; every field is ``ROLLOUT_LAB_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix="ROLLOUT_LAB_", frozen=True, extra="ignore")

    host: str = Field("127.0.0.1", description="Address the service listens on.")
    port: int = Field(8321, ge=1, le=65535, description="Port the service listens on.")
    root_path: str = Field("", description="URL prefix under which a reverse proxy serves the service.")
    data_dir: Path = Field(Path(".rollout-lab"), description="Directory of the SQLite database and of logs.")
    database_url: str | None = Field(
        None, description="SQLAlchemy URL, e.g. postgresql+psycopg://user@host/db; SQLite in data_dir if absent."
    )
    worker_command: str = Field(
        "",
        description="Command that runs the worker beside the API, such as another environment's `…/bin/python -m "
        "workers`; the service's own Python if empty.",
    )
    lease_s: float = Field(30.0, gt=0, description="A worker that is silent for this long has lost its attempt.")
    poll_s: float = Field(0.5, gt=0, description="How often an idle worker looks for work.")
    cancel_grace_s: float = Field(10.0, gt=0, description="A cancelled trial may take this long before it is killed.")
    ray_address: str | None = Field(
        None, validation_alias="RAY_ADDRESS", description="Ray cluster; the worker starts its own local Ray if absent."
    )
    max_body_bytes: int = Field(1 << 20, gt=0, description="Largest accepted request body.")
    log_json: bool = Field(False, description="Log JSON lines instead of text.")

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the database."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'rollout-lab.sqlite').absolute()}"

    @property
    def worker(self) -> list[str]:
        """Words of the command that runs a worker."""
        return shlex.split(self.worker_command) or [sys.executable, "-m", "workers"]
