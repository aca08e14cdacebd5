"""Writes the tokenizer of the tiny-qwen2 preset: `python scripts/make_tiny_tokenizer.py [DIRECTORY]`.

A byte-level BPE with exactly as many entries as the model has embeddings, so that every id the random weights choose
decodes. It learns from the only English text here that does not change, the licence; pairs of like characters fill the
rest.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
PRESET = ROOT / "app" / "experiment" / "models" / "tiny-qwen2"

VOCABULARY_SIZE = 8192
SPECIALS = ["<pad>", "<s>", "</s>"]
SPACE = "Ġ"  # how a byte-level BPE writes a space

CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)

TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    # Without one, transformers adds Qwen2's own as id 8192, beyond the model's embeddings.
    "unk_token": "<pad>",
    "model_max_length": 4096,
    "clean_up_tokenization_spaces": False,
    "chat_template": CHAT_TEMPLATE,
}


def learned(text: str) -> Tokenizer:
    """The merges that the text supports, most frequent first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        min_frequency=2,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def candidates(text: str) -> Iterator[tuple[str, str]]:
    """Pairs that the pre-tokenizer leaves together, those of frequent characters first; then the same after a space."""
    frequency = Counter(text)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    alike = [letters, "0123456789", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]
    pairs = [pair for characters in alike for pair in product(characters, characters)]
    pairs.sort(key=lambda pair: (-(frequency[pair[0]] + 1) * (frequency[pair[1]] + 1), pair))
    yield from pairs
    yield from ((SPACE, left + right) for left, right in pairs)


def fill(vocabulary: dict[str, int], merges: list[tuple[str, str]], text: str) -> None:
    """Append candidates until the vocabulary is full."""
    for left, right in candidates(text):
        if len(vocabulary) == VOCABULARY_SIZE:
            return
        if left + right not in vocabulary:
            vocabulary[left + right] = len(vocabulary)
            merges.append((left, right))


def write(directory: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json, one entry a line."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    tokenizer = json.loads(learned(text).to_str())
    merges = [(left, right) for left, right in tokenizer["model"]["merges"]]
    fill(tokenizer["model"]["vocab"], merges, text)
    tokenizer["model"]["merges"] = [" ".join(merge) for merge in merges]
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", TOKENIZER_CONFIG)):
        serialized = json.dumps(content, ensure_ascii=False, indent=0, separators=(",", ":"))
        (directory / name).write_text(serialized + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else PRESET)
