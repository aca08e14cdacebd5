"""The one place that reads ROLLOUT_LAB_* environment variables."""

import shlex
import sys
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Anonymous(StrEnum):
    """What requests without a token may do."""

    AUTO = "auto"
    NONE = "none"
    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Settings(BaseSettings):
    """Settings of the service and the worker; every field is ``ROLLOUT_LAB_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix="ROLLOUT_LAB_", frozen=True, extra="ignore")

    host: str = Field("127.0.0.1", description="Address the service listens on.")
    port: int = Field(8321, ge=1, le=65535, description="Port the service listens on.")
    root_path: str = Field("", description="URL prefix under which a reverse proxy serves the service.")
    allowed_hosts: str = Field(
        "",
        description="Names under which browsers and clients reach the service, separated by commas, beside loopback, "
        "this host's name and addresses.",
    )
    trusted_proxies: str = Field(
        "",
        description="Addresses and networks of reverse proxies, separated by commas, whose X-Forwarded-For and "
        "X-Forwarded-Proto tell who asks and how; from all others these say nothing.",
    )
    anonymous: Anonymous = Field(
        Anonymous.AUTO,
        description="What requests without a token may do: `none`, `read`, `submit`, `admin`; `auto` is everything "
        "while the service is for this machine alone and no token has been made, and nothing otherwise.",
    )
    token: SecretStr = Field(SecretStr(""), description="Token that the command line sends to the service.")
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
    environments: dict[str, Path] = Field(
        {},
        description='Python interpreters that specs may name, as JSON: `{"nightly": "/opt/vllm-nightly/bin/python"}`.',
    )
    variables: str = Field(
        "",
        description="Environment variables that specs may set although they load code, reach files or hosts: names, "
        "separated by commas.",
    )
    hub_models: str = Field(
        "*", description="Hugging Face ids that specs may name, as patterns (`Qwen/*`), separated by commas."
    )
    remote_code: str = Field(
        "", description="Models whose own code may run (`trust_remote_code`), as patterns, separated by commas."
    )
    model_roots: str = Field(
        "",
        description="Folders whose models specs may name by path, separated by commas; data_dir's `models` always is.",
    )
    data_roots: str = Field(
        "",
        description="Folders of prompts files that specs may name, separated by commas, beside data_dir's `prompts`.",
    )
    requests_per_s: float = Field(
        500.0, gt=0, description="Requests a second that one address, and one token, may send; in bursts twice as many."
    )
    streams_per_client: int = Field(500, gt=0, description="Event streams that one token, or one address, may follow.")
    most_queued: int = Field(
        1000, ge=1, description="Experiments that wait in the queue of one who may submit but not administer."
    )
    max_body_bytes: int = Field(1 << 20, gt=0, description="Largest accepted request body.")
    log_json: bool = Field(False, description="Log JSON lines instead of text.")

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the database."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'rollout-lab.sqlite').absolute()}"

    @classmethod
    def variable_of(cls, location: tuple[int | str, ...]) -> str:
        """The environment variable behind a validation error's location."""
        name = str(location[0]) if location else ""
        return f"ROLLOUT_LAB_{name.upper()}" if name in cls.model_fields else name

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine is meant to reach the service, by a reverse proxy neither."""
        return is_loopback(self.host) and not (self.names or self.root_path or self.trusted_proxies)

    @property
    def names(self) -> frozenset[str]:
        """The allowed hosts, each by itself."""
        return frozenset(filter(None, (name.strip().lower() for name in self.allowed_hosts.split(","))))

    @property
    def worker(self) -> list[str]:
        """Words of the command that runs a worker."""
        return shlex.split(self.worker_command) or [sys.executable, "-m", "workers"]
