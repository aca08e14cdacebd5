"""What all values of the pipeline that are written down have in common."""

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """Frozen, and deaf to fields it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())
