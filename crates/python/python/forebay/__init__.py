"""Forebay: replay a trace under replacement policies, choose one by measuring, and use it.

>>> import forebay
>>> trace = forebay.Trace.read("make.strace")              # or from_pandas, from_numpy, synthetic, sample
>>> answer = forebay.compare(trace, ["lru", "arc", "clock-pro", "opt"], ["64MiB", "10%"])
>>> print(answer.advice)
>>> answer.to_pandas()

`compare`, `curve`, `levels` and `analyze` ask the questions of the commands of the same names, and
answer with tables of the same columns (docs/schemas.md). Errors are `ValueError` where the question
makes no sense, `TraceError` where a trace cannot be read, and `Error` for the rest, in the command's
words. docs/python.md is the manual.
"""

from ._answer import Answer
from ._cached import CacheInfo, CachedFunction, cached
from ._experiment import Experiment, experiment
from ._forebay import Cache, Error, PolicyError, TraceError, __version__
from ._memmap import Pager, memmap
from ._pool import File, Pool
from ._slices import SlicedCurve, sliced_curve
from ._study import Policy, analyze, compare, curve, levels, policies
from ._sweep import Sweep, sweep
from ._trace import Trace, mix

__all__ = [
    "Answer",
    "Cache",
    "CacheInfo",
    "CachedFunction",
    "Error",
    "Experiment",
    "File",
    "Pager",
    "Policy",
    "PolicyError",
    "Pool",
    "SlicedCurve",
    "Sweep",
    "Trace",
    "TraceError",
    "__version__",
    "analyze",
    "cached",
    "compare",
    "curve",
    "experiment",
    "levels",
    "memmap",
    "mix",
    "policies",
    "sliced_curve",
    "sweep",
]
