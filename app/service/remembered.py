"""Answers that many ask for at once: made once, for all who have not got this version yet."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Answer:
    making: threading.Lock = field(default_factory=threading.Lock)
    body: bytes | None = None


class Remembered:
    """The newest answers, by entity tag."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, etag: str, make: Callable[[], bytes]) -> bytes:
        """The answer; whoever asks while it is being made waits for it. An error is not remembered."""
        with self._lock:
            answer = self._answers.setdefault(etag, _Answer())
            self._answers.move_to_end(etag)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        with answer.making:
            if answer.body is None:
                answer.body = make()
            return answer.body
