"""What all values of the pipeline that are written down have in common."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """Frozen, and deaf to fields it does not know."""

    elsewhere: ClassVar[Mapping[str, str]] = {}  # names that are looked for here in vain, and what to say instead

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())
