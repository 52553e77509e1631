"""Ctrl-C for a program of its own."""

from __future__ import annotations

import signal
import subprocess
import time


def words_after_interrupt(
    command: list[str], environment: dict[str, str] | None = None, *, rest: float
) -> tuple[float, list[str]]:
    """Run a program, send it Ctrl-C `rest` seconds after it printed "ready", and wait for its end.

    When that was sent, on the clock of `time.monotonic`, and the words that it printed then.
    """
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(rest)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            return sent, process.communicate(timeout=600)[0].split()
        finally:
            process.kill()
