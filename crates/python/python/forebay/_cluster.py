"""A sweep's pieces on the workers of a Dask cluster."""

from __future__ import annotations

import importlib
import itertools
import time
import uuid
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import _forebay
from ._pieces import Piece, run
from ._trace import Trace

if TYPE_CHECKING:
    from ._sweep import Given

#: How often a trace is sent anew to workers that lost it.
_SENDS = 20
#: How long a scheduler may take to answer.
_ANSWER = "10s"
#: Seconds between two looks whether it is there again.
_LOOK = 0.1


def _label(piece: Piece) -> str:
    return piece.policy if isinstance(piece.policy, str) else str(piece.policy.__name__)


class Cluster:
    """A client of a Dask cluster. `client` is one, or the scheduler's address."""

    def __init__(self, client: Any) -> None:
        try:
            self._distributed: Any = importlib.import_module("distributed")
        except ImportError as missing:
            raise ImportError("client: a sweep on workers needs Dask's distributed: pip install 'forebay[dask]'") from missing
        self._own = isinstance(client, str)
        if self._own:
            try:
                client = self._distributed.Client(client, timeout=_ANSWER)
            except (OSError, ValueError) as error:
                raise _forebay.Error(f"client: no scheduler of Dask answers at {client}: {error}") from error
        if not isinstance(client, self._distributed.Client):
            raise ValueError(f"client={client!r}: take a distributed.Client, or a scheduler's address")
        if client.asynchronous:
            raise ValueError("client: take one that waits: distributed.Client(…, asynchronous=False)")
        self.client = client
        self._address: str = client.scheduler.address

    def close(self) -> None:
        """Closes what was opened here."""
        if self._own:
            self.client.close()

    def threads(self) -> int:
        """The threads of all workers."""
        threads: int = sum(self.client.nthreads().values())
        return max(1, threads)

    def partitions(
        self, delayed: list[Any], describe: Callable[..., Any], name: str
    ) -> list[tuple[Any, list[tuple[str, str | None]]]]:
        """The parts of a Dask collection as futures, which workers compute again where they are lost; and what is in each."""
        lists = [self.client.submit(list, part) for part in self.client.compute(delayed)]
        found = self.client.gather([self.client.submit(describe, part, f"{name}.{number}") for number, part in enumerate(lists)])
        return list(zip(lists, found))

    def _homes(self, keys: list[str]) -> dict[str, list[str] | None]:
        """The workers that a trace's pieces go to, so that few read it; others take them where these are gone."""
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not workers or len(keys) < 2:
            return dict.fromkeys(keys)
        each = -(-len(workers) // len(keys))
        around = itertools.cycle(workers)
        return {key: [next(around) for _ in range(each)] for key in keys}

    def run(self, pieces: list[tuple[Piece, Given]]) -> Generator[tuple[Piece, pa.Table], None, None]:
        """Runs pieces, and gives the rows of each as it ends. Those of lost workers run again."""
        homes = self._homes(list(dict.fromkeys(piece.trace for piece, _ in pieces)))
        prefix = f"-{uuid.uuid4().hex[:12]}-"
        sent: dict[str, Any] = {}
        sends = 0
        waiting: dict[str, tuple[int, Piece, Given, Any]] = {}
        counter = itertools.count()

        def submit(number: int, piece: Piece, given: Given) -> Any:
            what = given.what
            if isinstance(what, Trace):
                if piece.trace not in sent:
                    [sent[piece.trace]] = self.client.scatter([what], broadcast=True, hash=False)
                what = sent[piece.trace]
            home = homes[piece.trace]
            # The part before the first dash is what the dashboard groups by.
            key = f"forebay:{_label(piece).replace('-', '_')}{prefix}{next(counter)}"
            where = {"workers": home, "allow_other_workers": True} if home else {}
            future = self.client.submit(run, piece, what, given.index, key=key, pure=False, priority=-number, **where)
            waiting[future.key] = (number, piece, given, future)
            return future

        try:
            ended = self._distributed.as_completed([submit(number, *one) for number, one in enumerate(pieces)])
            for future in ended:
                number, piece, given, _ = waiting.pop(future.key)
                status, table = future.status, None
                if status == "finished":
                    try:
                        table = future.result()
                    except self._distributed.CancelledError:
                        # Lost between its end and here.
                        status = "lost"
                if table is not None:
                    future.release()
                    yield piece, table
                elif status in ("cancelled", "lost"):
                    self._check_scheduler()
                    # What was sent is gone with the workers that had it.
                    sends += 1
                    if sends > _SENDS + len(pieces):
                        raise _forebay.Error(f"{piece.name}: workers lose it again and again; are they given enough memory?")
                    sent.pop(piece.trace, None)
                    ended.add(submit(number, piece, given))
                else:
                    error = future.exception()
                    if isinstance(error, self._distributed.KilledWorker):
                        raise _forebay.Error(
                            f"{piece.name}: {_label(piece)}: each worker that ran it died, the last one {error.last_worker.address}: give "
                            "workers more memory (memory_limit) or fewer threads, or say a smaller memory="
                        ) from error
                    if isinstance(error, ImportError):
                        raise _forebay.Error(
                            f"{piece.name}: a worker has not what the piece needs: {error}; workers need this version of the package, {_forebay.__version__}"
                        ) from error
                    raise error
        finally:
            if waiting and self.client.status == "running":
                self.client.cancel([future for *_, future in waiting.values()])

    def _check_scheduler(self) -> None:
        """Whether the scheduler is there still; the client looks for it for a while."""
        while self.client.status == "connecting":
            time.sleep(_LOOK)
        if self.client.status != "running":
            raise _forebay.Error(f"client: the scheduler at {self._address} is gone: start one and ask again")
