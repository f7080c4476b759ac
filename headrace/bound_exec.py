"""Become another program, one that cannot outlive the process which asked for it.

A script, run as `python -I -S bound_exec.py WAY PARENT_PID PROGRAM ARGUMENT...`, because a parent that has threads must
not run code between fork and exec. WAY `kernel` (Linux): the kernel kills the program at the end of its parent.
WAY `pipe`: a watcher process kills it at the end of standard input, a pipe that the parent holds.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
LOOK_AROUND_S = 1.0


def ask_kernel(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends; the wish survives exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have ended before the wish was made.
    if os.getppid() != parent_pid:
        sys.exit("the parent process ended")


def leave_watcher() -> None:
    """Fork a watcher of standard input; returns in the process that is to become the program."""
    program_pid = os.getpid()
    if os.fork() == 0:
        watch(program_pid)
        os._exit(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)


def watch(program_pid: int) -> None:
    """Kill the program when standard input ends; return when the program has ended by itself."""
    while os.getppid() == program_pid:
        readable, _, _ = select.select([0], [], [], LOOK_AROUND_S)
        if readable and not os.read(0, 1):
            os.kill(program_pid, signal.SIGKILL)
            return


def main(way: str, parent_pid: str, program: str, *arguments: str) -> None:
    """Tie this process to its parent, then become the program."""
    if way == "kernel":
        ask_kernel(int(parent_pid))
    else:
        leave_watcher()
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
