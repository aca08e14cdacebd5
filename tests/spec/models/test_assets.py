"""The model presets' files."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tokenizers import Tokenizer

from app.spec.models import MODELS

ROOT = Path(__file__).resolve().parents[3]
TINY = MODELS["tiny-qwen2"].path


def config_of(preset: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((MODELS[preset].path / "config.json").read_text())
    return parsed


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return Tokenizer.from_file(str(TINY / "tokenizer.json"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generator", ROOT / "scripts" / "make_tiny_tokenizer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("preset", list(MODELS))
def test_a_preset_has_a_config_and_a_tokenizer_if_it_says_so(preset: str) -> None:
    assert config_of(preset)["architectures"] == ["Qwen2ForCausalLM"]
    assert (MODELS[preset].path / "tokenizer.json").exists() == MODELS[preset].has_tokenizer


def test_every_directory_of_files_is_a_preset() -> None:
    directories = {path.parent.name for path in TINY.parent.glob("*/config.json")}
    assert directories == set(MODELS)


def test_the_big_shape_is_that_of_qwen2_5_7b() -> None:
    config = config_of("qwen2.5-7b-shape")
    assert [config[key] for key in ("num_hidden_layers", "hidden_size", "intermediate_size")] == [28, 3584, 18944]
    assert [config[key] for key in ("num_attention_heads", "num_key_value_heads")] == [28, 4]
    assert [config[key] for key in ("vocab_size", "max_position_embeddings")] == [152064, 131072]


def test_the_tokenizer_fits_in_half_a_megabyte() -> None:
    assert (TINY / "tokenizer.json").stat().st_size < 500_000


def test_the_generator_writes_the_tokenizer_that_is_committed(generator: ModuleType, tmp_path: Path) -> None:
    generator.write(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["tokenizer.json", "tokenizer_config.json"]
    for name in written:
        assert (tmp_path / name).read_bytes() == (TINY / name).read_bytes()


def test_every_id_of_the_model_is_a_token_and_none_is_beyond_it(tokenizer: Any) -> None:
    size = config_of("tiny-qwen2")["vocab_size"]
    assert tokenizer.get_vocab_size(with_added_tokens=True) == size
    assert all(tokenizer.id_to_token(id_) is not None for id_ in range(size))


def test_the_special_tokens_are_where_the_model_expects_them(tokenizer: Any) -> None:
    config = config_of("tiny-qwen2")
    for token, key in (("<pad>", "pad_token_id"), ("<s>", "bos_token_id"), ("</s>", "eos_token_id")):
        assert tokenizer.token_to_id(token) == config[key]


@pytest.mark.parametrize(
    "text",
    ["Hello, world! What is 2+2?", "naïve 日本語 🙂", "  def f(x):\n\treturn x\r\n", "\x00\x7f", "العربية", ""],
)
def test_text_survives_the_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_english_takes_fewer_tokens_than_characters(tokenizer: Any) -> None:
    text = "The service measures how fast the engine generates tokens, and how sure you can be of it."
    assert len(tokenizer.encode(text).ids) < len(text) / 1.6


def test_transformers_adds_no_token_and_finds_the_chat_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(TINY))
    assert len(tokenizer) == config_of("tiny-qwen2")["vocab_size"]
    assert tokenizer.eos_token_id == config_of("tiny-qwen2")["eos_token_id"]
    conversation = [{"role": "user", "content": "hi"}]
    written = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    assert written == "<s>user\nhi</s>\n<s>assistant\n"
    assert tokenizer.decode(tokenizer.encode(written)) == written
