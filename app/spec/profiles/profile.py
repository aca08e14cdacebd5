"""What a profile is."""

from pydantic import Field

from app.spec.engine import EngineSettings
from app.spec.experiment import DriverSettings
from app.spec.frozen import SpecModel


class Profile(SpecModel):
    """A named, versioned set of arm settings; a new version whenever a setting changes."""

    name: str = Field(description="Name arms refer to.", examples=["vllm-sync"])
    version: int = Field(description="Raised whenever a setting changes.", examples=[1])
    summary: str = Field(description="What the profile does, in one sentence.")
    engine: EngineSettings = Field(EngineSettings(), description="Engine settings this profile differs in.")
    driver: DriverSettings = Field(description="How requests reach the engine.")
