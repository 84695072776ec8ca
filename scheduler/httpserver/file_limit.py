"""File descriptors: containers often start with a soft limit of 1,024, which clients exhaust."""

from __future__ import annotations

import resource

import structlog

from scheduler.httpserver.limits import FILES_WANTED

log = structlog.get_logger("http")


def raise_limit(wanted: int = FILES_WANTED) -> int:
    """Raise the soft limit of open files as far as the hard limit and ``wanted`` allow.

    Returns the resulting soft limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:
        log.warning("open file limit not raised", soft=soft, problem=str(error))
        return soft
    return most
