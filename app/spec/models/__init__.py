"""Model presets: one directory with a config (and maybe a tokenizer) each, and one line here."""

from pathlib import Path

from pydantic import Field

from app.spec.engine import EngineSettings, LoadFormat
from app.spec.frozen import SpecModel


class ModelPreset(SpecModel):
    """A model shape this project ships."""

    name: str = Field(description="Name specs refer to.", examples=["tiny-qwen2"])
    summary: str = Field(description="What it is good for.")
    load_format: LoadFormat = Field(description="vLLM's load_format.")
    has_tokenizer: bool = Field(description="Whether prompts may be text.")
    engine: EngineSettings = Field(EngineSettings(), description="Engine settings that suit the model.")

    @property
    def path(self) -> Path:
        """Directory with config.json, to be given to vLLM as the model."""
        return Path(__file__).parent / self.name


MODELS: dict[str, ModelPreset] = {
    preset.name: preset
    for preset in (
        ModelPreset(
            name="tiny-qwen2",
            summary="Four small layers with random weights and a byte-level tokenizer: runs anywhere in seconds.",
            load_format=LoadFormat.DUMMY,
            has_tokenizer=True,
            # Compiling four small layers takes minutes on two CPU cores and makes them no faster; there bfloat16 takes
            # twice the time of float32.
            engine=EngineSettings(dtype="float32", enforce_eager=True),
        ),
        ModelPreset(
            name="qwen2.5-7b-shape",
            summary="The shape of DeepSeek-R1-Distill-Qwen-7B with random weights: GPU timing without a download.",
            load_format=LoadFormat.DUMMY,
            has_tokenizer=False,
        ),
    )
}
