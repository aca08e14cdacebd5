"""No engine: timings from the spec."""

from app.experiment.profiles.base import Profile
from app.experiment.spec import SimulatedDriver

PROFILE = Profile(
    name="simulated",
    version=1,
    summary="No engine: timings come from the spec. For tests and demonstrations; results are marked simulated.",
    driver=SimulatedDriver(),
)
