"""Stopping a program without an event loop: a signal lets the piece in hand finish and ends any pause at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Woken(BaseException):
    """Raised by the handler out of a pause, and only there."""


@dataclass(slots=True)
class Stop:
    """Whether somebody asked for the end."""

    asked: bool = False
    _pausing: bool = False

    def ask(self, *_: object) -> None:
        """Ask for the end; may be called by a signal."""
        self.asked = True
        if self._pausing:
            # Lowered first: a second signal must not raise where nobody expects it.
            self._pausing = False
            raise _Woken

    def unless_asked(self, pause: Callable[[], None]) -> None:
        """Pause, but not longer than until a signal comes."""
        with suppress(_Woken):
            try:
                self._pausing = True
                if not self.asked:
                    pause()
            finally:
                self._pausing = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask for the end. Signals reach the main thread only; elsewhere somebody calls `ask`."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.ask) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
