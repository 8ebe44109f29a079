"""Progress of long work on stderr: what, how much, time left. Rewrites its line only on a terminal."""

import sys
import time


class Progress:
    """Counts steps and prints at most once a second (on a terminal) or every ten seconds (elsewhere)."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def add(self, steps: int = 1) -> None:
        """Count steps."""
        self._done += steps
        now = time.monotonic()
        if now - self._shown >= (1 if self._terminal else 10):
            self._shown = now
            left = (now - self._start) / self._done * (self._total - self._done)
            self._print(f"{self._what}: {self._done} of {self._total}, {left:.0f} s left")

    def end(self) -> None:
        """Print how long it took."""
        self._print(f"{self._what}: {self._total} in {time.monotonic() - self._start:.1f} s", last=True)

    def break_off(self) -> None:
        """End the line of work that failed, so that the error stands on its own."""
        if self._terminal:
            sys.stderr.write("\n")

    def _print(self, text: str, last: bool = False) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


def say(line: str) -> None:
    """A line of its own about what is done or was found, beside the results on stdout."""
    print(f"frontdesk: {line}.", file=sys.stderr, flush=True)
