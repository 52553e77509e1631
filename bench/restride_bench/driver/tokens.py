"""The tokens of performance templates: their names, and templates that are read.

`%token%` stands for a value, everything else for itself. Before the name of a time or a rate comes which of
the times is meant (`-` least, `0` mean, `+` most; least where nothing is said) and the unit (`K`, `M`, `G`).
"""

from __future__ import annotations

import re

from restride.cli.usage import wrong_usage

_TIMES = "%Gops%,%+ctime%,%-time%,%-Gflops%,%0time%,%0Gflops%"
TOKEN = re.compile(r"%([-0+]?)([KMG]?)([A-Za-z_]+)%")
PLAIN = (
    *("idx", "driver", "engine", "impl", "name", "prb", "desc", "DESC", "attr", "flags"),
    *("sdt", "ddt", "idt", "odt", "stag", "dtag", "itag", "otag"),
    *("dir", "dt", "tag", "group", "axis", "cfg", "alg", "mb", "eps"),
    *("bia_dt", "wtag", "stat_tag", "prop", "activation", "direction"),
)
RATES = (
    *("time", "bw", "ctime", "cpdtime", "cptime", "ibytes", "obytes", "iobytes"),
    *("ops", "flops", "clocks", "freq"),
)


def full(template: str, own: str) -> str:
    """Expand `def`, `csv` or a custom template. `own`: the fields of `csv` for a driver."""
    known = {
        "def": f"perf,%engine%,%impl%,%name%,%prb%,{_TIMES}",
        "csv": f"perf,%engine%,%impl%,%name%,{own},{_TIMES}",
    }
    return known.get(template, template)


def check(template: str) -> None:
    """Raise UsageError for a template with a token that there is not, or with a percent sign of none."""
    for found in TOKEN.finditer(template):
        if not _is_token(found):
            raise wrong_usage(
                f"--perf-template: there is no token {found[0]}",
                why=f"plain ones are {', '.join(PLAIN)}; those of times and rates {', '.join(RATES)}",
                hint="percent signs stand on both sides of a token only",
            )
    left = TOKEN.sub("", template)
    if "%" in left:
        raise wrong_usage(
            "--perf-template: a percent sign that begins no token",
            where=left[left.index("%") :][:80],
            why="percent signs stand on both sides of a token only",
            hint="for example %-Gbw%",
        )


def _is_token(found: re.Match[str]) -> bool:
    which, unit, name = found.groups()
    return name in RATES or (not which and unit + name in PLAIN)
