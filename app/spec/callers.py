"""Who calls the engine: settings that only one caller has, and what each can run."""

from collections.abc import Collection

from app.errors import FieldError, InvalidInput
from app.format import listing
from app.spec.experiment import AsyncLlmDriver, DriverCaller
from app.spec.workload import Arrival

# Settings of each caller with their defaults.
SETTINGS: dict[DriverCaller, dict[str, int]] = {
    DriverCaller.DIRECT: {},
    DriverCaller.RAY: {"agent_workers": 8, "calls_per_actor": 1000},
    DriverCaller.HTTP: {"api_server_count": 1},
}
_RUN: tuple[DriverCaller, ...] = (DriverCaller.DIRECT,)


def settle_caller(driver: AsyncLlmDriver, asked: Collection[str]) -> AsyncLlmDriver:
    """The driver with its caller's defaults filled in, and without settings of other callers.

    Raises InvalidInput where the arm itself, by what it ``asked`` for, sets one that its caller does not have.
    """
    own = SETTINGS[driver.caller]
    foreign = {name: caller for caller, settings in SETTINGS.items() for name in settings if name not in own}
    errors = [
        FieldError(f"/driver/{name}", f"only caller {caller} has this setting; this arm's caller is {driver.caller}")
        for name, caller in foreign.items()
        if name in asked and getattr(driver, name) is not None
    ]
    if driver.caller not in _RUN:
        said = f"this version does not run caller {driver.caller}; it runs {listing(_RUN)}"
        errors.append(FieldError("/driver/caller", said))
    if errors:
        raise InvalidInput.of(tuple(errors))
    filled = {name: default for name, default in own.items() if getattr(driver, name) is None}
    return driver.model_copy(update={**dict.fromkeys(foreign), **filled})


def check_caller(arrival: Arrival, driver: AsyncLlmDriver) -> list[FieldError]:
    """What of the requests' arrival the caller cannot do."""
    if driver.caller is not DriverCaller.RAY:
        return []
    limit, size = getattr(arrival, "limit", None), getattr(arrival, "size", None)
    if limit is not None:
        said = "agent workers have no slots in common, so caller ray takes no limit on arrival; driver.calls_per_actor "
        return [FieldError("/driver/caller", said + "limits the calls in flight at the server")]
    if size is not None:
        said = "agent workers do not wait for each other between calls, so caller ray takes no size of arrival"
        return [FieldError("/driver/caller", said)]
    return []
