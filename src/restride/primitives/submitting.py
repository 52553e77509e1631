"""How an execution begins: run at once on the host, submitted to a queue on a SYCL device (P05 to P09)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

from ..errors import InvalidArguments
from ..runtime.engine import Engine
from ..runtime.event import COMPLETED, Event
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..runtime.transfer import settle

if TYPE_CHECKING:
    from ..runtime.sycl import Run, SyclDevice


@runtime_checkable
class OnDevice(Protocol):
    """An implementation that submits: the event of what it submits is that of the execution."""

    is_on_device: ClassVar[bool]

    def submit(self, run: Run, *args: Any) -> Any:
        """Submit on checked memories; the event."""


def run_on(impl: Any, stream: Stream, deps: Sequence[Any], args: tuple[Any, ...]) -> Any:
    """Run an implementation on checked memories; its event."""
    if not isinstance(impl, OnDevice):
        impl.run(*args)
        return COMPLETED
    device = cast("SyclDevice", stream.engine.device)
    return impl.submit(device.begin(stream._queue, deps), *args)


def run_now(impl: Any, engine: Engine, memories: Sequence[Memory], args: tuple[Any, ...]) -> None:
    """Run an implementation on checked memories to its end; on a device after all that works on them."""
    if engine.device.is_host:
        impl.run(*args)
        return
    settle(*memories)
    device = cast("SyclDevice", engine.device)
    impl.submit(device.begin(device.queue), *args).wait()


def check_sycl(kind: str, impl: Any, engine: Engine) -> None:
    """Raise InvalidArguments unless the engine is a SYCL device."""
    if not engine.device.is_host:
        return
    raise InvalidArguments(
        f"{kind}.execute_sycl: the engine is no SYCL device",
        code="RS-P08",
        where=f"engine {engine}",
        why="only streams that are SYCL queues have events (P08)",
        hint="use execute(stream, src, dst)",
    )


def checked_deps(kind: str, deps: Iterable[Any]) -> list[Any]:
    """The events of dpctl among `deps`; the host's are over. Raises InvalidArguments for anything else.

    An event is known by what dpctl gives it, so that dpctl is not imported to say that something is none.
    """
    if isinstance(deps, str | bytes) or not isinstance(deps, Iterable):
        raise _no_events(kind, deps, "list of events")
    found = []
    for event in deps:
        if isinstance(event, Event):
            continue
        if not (hasattr(event, "wait_for") and hasattr(event, "execution_status")):
            raise _no_events(kind, event, "dpctl.SyclEvent")
        found.append(event)
    return found


def _no_events(kind: str, given: object, wanted: str) -> InvalidArguments:
    return InvalidArguments(
        f"{kind}.execute_sycl: deps are no events",
        code="RS-P08",
        why=f"{type(given).__name__} is no {wanted}",
        hint="pass a list of what execute_sycl, or a queue of dpctl, returned",
    )
