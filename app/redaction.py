"""Secrets, kept out of what is logged, stored and shown."""

import os
import re
from collections.abc import Mapping

HIDDEN = "<hidden>"
_SHORTEST = 6  # characters: shorter ones would be found in ordinary words
_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PGPASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@'\"]*):([^/\s@'\"]+)@")
# Tokens that are known by their shape: our own, Hugging Face's, OpenAI's, GitHub's, AWS's ids, and whatever is called a
# bearer.
_SHAPE = re.compile(
    r"\b(?:rlt_[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
)


def is_secret(name: str) -> bool:
    """Whether a variable or setting of this name holds a secret."""
    return _NAME.search(name) is not None


def hide(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text without the secrets that the process's environment holds, passwords in addresses, and known tokens."""
    for secret in _secrets(environment):
        text = text.replace(secret, HIDDEN)
    return _SHAPE.sub(HIDDEN, _PASSWORD_IN_URL.sub(rf"\1:{HIDDEN}@", text))


def _secrets(environment: Mapping[str, str]) -> list[str]:
    """The longest first: one may hold another."""
    named = {value for name, value in environment.items() if is_secret(name)}
    inside = {found[2] for value in environment.values() for found in _PASSWORD_IN_URL.finditer(value)}
    return sorted((one for one in named | inside if len(one) >= _SHORTEST), key=len, reverse=True)
