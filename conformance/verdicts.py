"""Verdicts: the outcome of a check goes in, one line with its numbers and its time is printed, failures are counted."""

import time
import traceback


class Verdicts:
    """Prints a line per check, and knows how many failed."""

    def __init__(self):
        self.passed, self.failed = 0, []
        self._last = time.monotonic()

    def check(self, name, run, *arguments):
        """Runs a check, a function that returns whether all is well and what it measured; an exception is a failure."""
        try:
            well, measured = run(*arguments)
        except Exception as error:
            traceback.print_exc()
            well, measured = False, f"{type(error).__name__}: {error}"
        self.record(name, well, measured)

    def record(self, name, well, measured):
        now = time.monotonic()
        print(f"{'PASS' if well else 'FAIL'} {name}: {measured} [{now - self._last:.1f} s]", flush=True)
        self._last = now
        if well:
            self.passed += 1
        else:
            self.failed.append(name)
