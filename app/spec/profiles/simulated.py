"""No engine: timings from the spec."""

from app.spec.experiment import SimulatedDriver
from app.spec.profiles.profile import Profile

PROFILE = Profile(
    name="simulated",
    version=1,
    summary="No engine: timings come from the spec. For tests and demonstrations; results are marked simulated.",
    driver=SimulatedDriver(),
)
