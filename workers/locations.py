"""What a spec names, found on the worker's host, links and all, before anything of it is used.

The worker's settings are what counts: the service that took the spec may run elsewhere, under others.
"""

from pathlib import Path

from app.errors import EngineStartFailed, NotPermitted
from app.spec.experiment import Experiment
from app.spec.permits import Permits, is_hub_id, list_refusals
from app.spec.resolution import ResolvedExperiment


def locate(spec: Experiment, resolved: ResolvedExperiment, permits: Permits) -> ResolvedExperiment:
    """The experiment with paths in the place of names: of interpreters, of models that are folders.

    Raises NotPermitted for what this worker does not let a spec name, EngineStartFailed for a folder that is not there.
    """
    refused = tuple(list_refusals(spec, permits))
    if refused:
        raise NotPermitted("; ".join(f"{one.pointer}: {one.detail}" for one in refused))
    arms = []
    for arm in resolved.arms:
        python, model = arm.environment.python, arm.model
        found: dict[str, object] = {}
        if python is not None:
            found["environment"] = arm.environment.model_copy(update={"python": permits.environments[python]})
        if not model.preset:
            tokenizer = None if model.tokenizer is None else _find_folder(model.tokenizer, arm.name, permits)
            folders = {"id": _find_folder(model.id, arm.name, permits), "tokenizer": tokenizer}
            found["model"] = model.model_copy(update=folders)
        arms.append(arm.model_copy(update=found))
    return resolved.model_copy(update={"arms": tuple(arms)})


def _find_folder(reference: str, arm: str, permits: Permits) -> str:
    """A hub's id as it is, else the folder behind every link; it has to lie below a root."""
    if is_hub_id(reference):
        if Path(reference).exists():  # vLLM would take it for the model
            raise NotPermitted(f"model {reference}: a file of that name lies where the worker runs; move it away", arm)
        return reference
    for root in map(Path, permits.model_roots):
        found = (root / reference).resolve()
        if found.is_relative_to(root.resolve()) and found.is_dir():
            return str(found)
    raise EngineStartFailed(
        f"model {reference}: no such folder below {', '.join(permits.model_roots)} on the worker's host", arm
    )
