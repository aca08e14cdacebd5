"""Whether what a workload asks for can be in force: beside forced lengths, without a tokenizer, in an arm's driver."""

from collections.abc import Iterator

from app.errors import FieldError
from app.spec.experiment import AsyncLlmDriver, LlmDriver, Samples
from app.spec.sampling import Sampling
from app.spec.workload import Arrival, BatchArrival, ForcedOutput, Workload

_ENDS_SAMPLES = ("stop", "stop_token_ids", "structured_outputs", "repetition_detection")
_READS_TEXT = ("stop", "bad_words", "structured_outputs")
_NEEDS_TEXT = ("stop", "include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens")
_LEAST_TEMPERATURE = 0.01  # vLLM raises lower ones to it, but for 0


def check_sampling(workload: Workload, without_tokenizer: str | None) -> Iterator[FieldError]:
    """What no engine could do, whatever the arm; `without_tokenizer` names a model that has none."""
    for pointer, said in _list_said(workload):
        for name in _ENDS_SAMPLES if isinstance(workload.output, ForcedOutput) else ():
            if name in said:
                yield FieldError(
                    f"{pointer}/{name}",
                    "would end samples that workload.output.stop: length forces to their length; say "
                    "workload.output.stop: natural and max_tokens",
                )
        for name in _READS_TEXT if without_tokenizer is not None else ():
            if name in said:
                yield FieldError(f"{pointer}/{name}", f"is about text, and {without_tokenizer} has no tokenizer")
        temperature = said.get("temperature")
        if isinstance(temperature, float | int) and 0 < temperature < _LEAST_TEMPERATURE:
            yield FieldError(
                f"{pointer}/temperature", f"vLLM raises temperatures below {_LEAST_TEMPERATURE}; say that, or 0"
            )
    for index, merged in enumerate(workload.samplings):
        yield from _check_greedy(merged, _point_to(index))
        if merged.include_stop_str_in_output is not None and merged.stop is None:
            yield FieldError(f"{_point_to(index)}/include_stop_str_in_output", "there is no stop to include")


def check_sampling_of_driver(workload: Workload, driver: LlmDriver | AsyncLlmDriver) -> Iterator[FieldError]:
    """What this arm's driver leaves without effect, or vLLM refuses beside it; pointers from the arm."""
    said = {name for _, parameters in _list_said(workload) for name in parameters}
    texts = [name for name in _NEEDS_TEXT if name in said]
    if texts and not driver.detokenize:
        yield FieldError("/driver/detokenize", f"workload.sampling.{texts[0]} is about text: say detokenize: true")
    greedy = any(sampling.temperature == 0 for sampling in workload.samplings)
    if greedy and driver.samples is Samples.N_PARAMETER and workload.samples_per_prompt > 1:
        yield FieldError("/driver/samples", "greedy samples of a prompt are all the same, and vLLM refuses n above 1")
    for sampling in workload.samplings:
        scored = sampling.logprob_token_ids
        if scored is not None and driver.logprobs not in (None, len(scored)):
            yield FieldError("/driver/logprobs", f"must be {len(scored)} or absent beside as many logprob_token_ids")
        if sampling.flat_logprobs and scored is None and driver.logprobs is None and sampling.prompt_logprobs is None:
            yield FieldError("/driver/logprobs", "there is nothing for workload.sampling.flat_logprobs to flatten")


def check_arrival(
    arrival: Arrival, samples_per_prompt: int, driver: LlmDriver | AsyncLlmDriver
) -> Iterator[FieldError]:
    """Requests that this arm's driver could not start so; pointers from the arm."""
    if not isinstance(arrival, BatchArrival):
        if isinstance(driver, LlmDriver):
            yield FieldError(
                "/driver/api",
                f"LLM.generate takes the whole batch at once; arrival.pattern {arrival.pattern!r} needs an async "
                "driver, or this arm an arrival of its own: {pattern: batch}, or with size: … in several calls",
            )
    elif driver.samples is Samples.N_PARAMETER and arrival.size is not None and arrival.size % samples_per_prompt:
        yield FieldError(
            "/driver/samples",
            f"n_parameter asks for the {samples_per_prompt} samples of a prompt at once, and they do not fit into "
            f"calls of {arrival.size} samples: say a multiple of {samples_per_prompt}",
        )


def _list_said(workload: Workload) -> Iterator[tuple[str, dict[str, object]]]:
    """What each part of the workload says of sampling, and where."""
    for index, sampling in enumerate((workload.sampling, *(share.sampling for share in workload.sampling_shares))):
        yield _point_to(index), sampling.model_dump(exclude_unset=True, exclude_none=True)


def _point_to(index: int) -> str:
    """Where the sampling of `Workload.samplings` stands in the spec."""
    return "/workload/sampling" if index == 0 else f"/workload/sampling_shares/{index - 1}/sampling"


def _check_greedy(sampling: Sampling, pointer: str) -> Iterator[FieldError]:
    if sampling.temperature == 0:
        for name, neutral in (("top_p", 1.0), ("top_k", 0), ("min_p", None)):
            if getattr(sampling, name) not in (neutral, 0.0):
                yield FieldError(f"{pointer}/{name}", "has no effect on greedy samples (temperature 0)")
