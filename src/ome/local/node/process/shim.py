"""The parent of a plain container: runs the command, passes signals on, and ends it when the node stand-in is gone.

`shim LIFELINE ARGV...`: LIFELINE is the reading end of a pipe that the node stand-in holds open as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios


def main(arguments: list[str]) -> int:
    lifeline, argv = int(arguments[0]), arguments[1:]
    os.set_inheritable(lifeline, False)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        child = subprocess.Popen(argv, start_new_session=False)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        return 127
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    while True:
        ready, _, _ = select.select([lifeline], [], [], 0.2)
        code = child.poll()
        if code is not None:
            return code if code >= 0 else 128 - code
        if ready:
            # Nothing is ever written to the lifeline: readable means closed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
