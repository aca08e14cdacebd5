"""What this installation lets specs name."""

from app.settings import Settings
from app.spec.experiment import Experiment
from app.spec.permits import Permits, require_permitted


def read_permits(settings: Settings) -> Permits:
    """The operator's settings as the spec's rules take them."""
    own = settings.data_dir.absolute()
    return Permits(
        environments={name: str(path) for name, path in settings.environments.items()},
        variables=frozenset(_split_names(settings.variables)),
        hub_models=_split_names(settings.hub_models),
        remote_code=_split_names(settings.remote_code),
        model_roots=(str(own / "models"), *_split_names(settings.model_roots)),
        data_roots=(str(own / "prompts"), *_split_names(settings.data_roots)),
    )


def permit(spec: Experiment, settings: Settings) -> None:
    """Raise InvalidInput naming everything in the spec that the operator does not let it name."""
    require_permitted(spec, read_permits(settings))


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))
