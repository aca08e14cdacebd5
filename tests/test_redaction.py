"""No secret is written down."""

import io
import logging
import re

import pytest
import structlog

from app.logging import configure_logging
from app.redaction import HIDDEN, hide, is_secret
from app.settings import Settings

PLANTED = {
    "HF_TOKEN": "planted-hub-token",
    "POSTGRES_PASSWORD": "planted-password",
    "AWS_SECRET_ACCESS_KEY": "planted-key",
    "ROLLOUT_LAB_DATABASE_URL": "postgresql+psycopg://user:planted-in-url@host/db",
    "SHORT_TOKEN": "abc",
    "TOKENIZERS_PARALLELISM": "false",
}


@pytest.mark.parametrize("secret", ["planted-hub-token", "planted-password", "planted-key", "planted-in-url"])
def test_what_the_environment_holds_is_hidden_wherever_it_stands(secret: str) -> None:
    assert (
        hide(f"cannot log in with '{secret}', says the hub", PLANTED) == f"cannot log in with '{HIDDEN}', says the hub"
    )


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:0penSesame@host/db",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "/v1/experiments/rlt_0penSesame-0penSesame_",
        "Authorization: Bearer 0penSesame0penSesame",
        "sk-0penSesame0penSesame0penSesame",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    hidden = hide(f"failed: {text}", {})
    assert HIDDEN in hidden
    assert not re.search("0penSesame|abcdefghij", hidden)


@pytest.mark.parametrize("text", ["abc false 16 tokens", "http://127.0.0.1:8321/experiments/1", "max_num_seqs=256"])
def test_ordinary_text_stays(text: str) -> None:
    assert hide(text, PLANTED) == text


def test_names_tell_secrets() -> None:
    assert all(map(is_secret, ("HF_TOKEN", "hf_token", "VLLM_API_KEY", "PGPASSWORD", "x_secret")))
    assert not any(map(is_secret, ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "max_num_batched_tokens")))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_line_and_its_traceback_hold_no_secret(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted-hub-token")
    before = logging.getLogger().handlers[:], logging.getLogger().level
    configure_logging(Settings(log_json=as_json))
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(io.StringIO())
    try:
        raise ValueError("refused planted-hub-token")
    except ValueError:
        structlog.stdlib.get_logger("test").exception("failed with planted-hub-token", given="planted-hub-token")
    said = handler.stream.getvalue()
    logging.getLogger().handlers[:], logging.getLogger().level = before
    assert "planted" not in said
    assert said.count(HIDDEN) >= 3
