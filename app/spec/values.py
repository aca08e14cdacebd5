"""Kinds of values a spec holds, no laxer than its JSON schema says, and how large they may be.

A number is not its text and not a boolean. The limits are far above what any rollout needs; they keep what one spec
makes the service, the database and a worker hold within bounds.
"""

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict

Whole = Annotated[int, Strict()]
Real = Annotated[float, Strict()]
Switch = Annotated[bool, Strict()]

MOST_TOKENS = 10_000_000  # of one prompt or sample: the longest context any model claims
MOST_TOKEN_ID = 2**31 - 1  # vLLM keeps ids in 32 bits
MOST_PROMPTS = 100_000
MOST_LENGTHS = 100_000  # of an empirical distribution: more change no quantile
MOST_SEED = 2**32 - 1  # as numpy takes them
LONGEST_S = 30 * 86_400  # nobody waits longer than a month for a verdict
LONGEST_REFERENCE = 512  # characters of a model's id or path
LONGEST_PATH = 1024
LONGEST_WORD = 64  # characters of a name that is looked up
MOST_AGENT_WORKERS = 256  # processes, of 100 MiB each
MOST_CALLS = 100_000  # tasks on one event loop

# Of sampling parameters, each of which goes to the engine with every request.
LONGEST_STOP = 256  # characters of a text that is looked for in samples
LONGEST_GRAMMAR = 65_536  # characters
MOST_STOPS = 64
MOST_WORDS = 256
MOST_CHOICES = 1_000
MOST_BIASED_TOKENS = 1_024
MOST_ALLOWED_TOKENS = 10_000
MOST_SCORED_TOKENS = 128  # vLLM's own limit
MOST_SHARES = 16  # of the samples, each with parameters of its own

# What one trial and one experiment may come to (`app.spec.size`).
MOST_SAMPLES_PER_TRIAL = 1_000_000  # requests a worker draws, sends and keeps in memory
MOST_PROMPT_TOKENS_PER_TRIAL = 25_000_000  # 1 GiB of token ids in a worker
MOST_TOKENS_PER_TRIAL = 1_000_000_000  # three hours of a host that makes 100,000 tokens per second
MOST_SAMPLING_CHARACTERS_PER_TRIAL = 1_000_000_000  # of all requests together, which are in an engine at once
MOST_TRIALS = 10_000  # a plan of 1 MB
MOST_SAMPLES = 100_000_000  # rows in the database
MOST_TOKENS_IN_ALL = 100_000_000_000  # twelve days at 100,000 tokens per second

Word = Annotated[str, Field(min_length=1, max_length=LONGEST_WORD, pattern=r"^[A-Za-z0-9_.+-]+$")]


def _exactly(expected: object) -> BeforeValidator:
    """Lets a literal tell 1 from true and false from 0, which Python holds equal."""

    def tell_apart(value: object) -> object:
        if value == expected and type(value) is not type(expected):
            raise ValueError(f"must be {json.dumps(expected)}, not {json.dumps(value)}")
        return value

    return BeforeValidator(tell_apart)


Only1 = Annotated[Literal[1], _exactly(1)]
OnlyTrue = Annotated[Literal[True], _exactly(True)]
OnlyFalse = Annotated[Literal[False], _exactly(False)]
