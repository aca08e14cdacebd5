"""What every route takes: one table, so that none is forgotten. A test compares it with the application's routes."""

from collections.abc import Mapping

from app.store.tokens import Scope

_OPEN = (
    # Probes have no token; /readyz tells strangers no more than whether.
    "GET /healthz",
    "GET /readyz",
    # What stands in the source anyway.
    "GET /v1/problems/{slug}",
    "GET /docs",
    "GET /static/{name:path}",
    # How a browser gets in, and out.
    "GET /login",
    "POST /login",
    "POST /logout",
)
_READ = (
    "GET /metrics",
    "GET /v1/experiments",
    "GET /v1/experiments/{experiment_id}",
    "GET /v1/experiments/{experiment_id}/events",
    "GET /v1/experiments/{experiment_id}/export",
    "GET /v1/experiments/{experiment_id}/requests",
    "GET /v1/experiments/{experiment_id}/results",
    "GET /v1/experiments/{experiment_id}/timeline",
    "GET /v1/models",
    "GET /v1/profiles",
    "GET /v1/workers",
    "GET /",
    "GET /compare",
    "GET /experiments",
    "GET /experiments/rows",
    "GET /experiments/{experiment_id}",
    "GET /experiments/{experiment_id}/data/{name}.{kind}",
    "GET /experiments/{experiment_id}/findings",
    "GET /experiments/{experiment_id}/live",
    "GET /experiments/{experiment_id}/parts/{part}",
    "GET /experiments/{experiment_id}/report.html",
    "GET /experiments/{experiment_id}/sparkline.svg",
    "GET /profiles",
    "GET /submit",
    "GET /workers",
)
_SUBMIT = (
    "POST /v1/experiments",
    "POST /v1/experiments/{experiment_id}/cancel",  # another's takes admin
    "POST /v1/experiments/{experiment_id}/retry",
    "POST /experiments/{experiment_id}/cancel",
    "POST /experiments/{experiment_id}/retry",
    "POST /submit",
    "POST /submit/check",
)

RULES: Mapping[str, Scope | None] = {
    **dict.fromkeys(_OPEN),
    **dict.fromkeys(_READ, Scope.READ),
    **dict.fromkeys(_SUBMIT, Scope.SUBMIT),
}


def find_rule(method: str, path: str) -> Scope | None:
    """The scope a route takes, None for none; what is not in the table is for admins."""
    return RULES.get(f"{method} {path}", Scope.ADMIN)
