"""Log lines: text for people, JSON for machines; ours and the libraries' alike."""

import logging
import logging.config
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

from app.printable import printable
from app.redaction import hide
from app.settings import Settings

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(settings: Settings) -> None:
    """Send everything to stderr in one format. Once per process, from its entry point."""
    renderer: tuple[Processor, ...] = (
        (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
        if settings.log_json
        else (
            _printable_values,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
            _printable_line,
        )
    )
    logging.config.dictConfig(_stdlib(renderer))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _printable_values(logger: object, method: str, event: EventDict) -> EventDict:
    """A path or a name that holds the end of a line must not begin another one."""
    del logger, method
    return {key: printable(value.rstrip("\n")) if isinstance(value, str) else value for key, value in event.items()}


def _printable_line(logger: object, method: str, line: Any) -> str:
    """What a terminal would obey is also in tracebacks; their lines stay lines."""
    del logger, method
    return printable(str(line), lines=True)


def _without_colours(logger: object, method: str, event: EventDict) -> EventDict:
    """Drop uvicorn's second, coloured copy of its messages."""
    del logger, method
    event.pop("color_message", None)
    return event


def _without_secrets(logger: object, method: str, line: str) -> str:
    """The last word on a line, tracebacks and all."""
    del logger, method
    return hide(line)


def _stdlib(renderer: tuple[Processor, ...]) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "ours": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*_SHARED, structlog.stdlib.ExtraAdder()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _without_colours,
                    *renderer,
                    _without_secrets,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "ours"}},
        "root": {"level": "INFO", "handlers": ["stderr"]},
        "loggers": {
            # Requests are logged by our own middleware, with their ids.
            "uvicorn.access": {"level": "WARNING"},
            "alembic": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
        },
    }
