"""Named, versioned settings of arms: one module each, and one line here."""

from app.spec.profiles import simulated, vllm_async, vllm_sync
from app.spec.profiles.profile import Profile

PROFILES: dict[str, Profile] = {
    profile.name: profile for profile in (vllm_sync.PROFILE, vllm_async.PROFILE, simulated.PROFILE)
}

__all__ = ["PROFILES", "Profile"]
