"""Properties that are computed once and kept."""

import threading

from restride.kept import kept_property


class Counted:
    """Counts how often its properties are computed, and waits in one of them."""

    def __init__(self, wait: threading.Barrier | None = None) -> None:
        self.calls = 0
        self._wait = wait

    @kept_property
    def value(self) -> list[int]:
        """The number of calls."""
        self.calls += 1
        if self._wait:
            self._wait.wait(120)
        return [self.calls]


def test_values_are_computed_once_for_each_instance():
    one, other = Counted(), Counted()
    assert one.value is one.value
    assert (one.calls, other.calls) == (1, 0)
    assert other.value is not one.value


def test_the_class_shows_the_property_itself():
    assert Counted.value.__doc__ == "The number of calls."


def test_instances_are_computed_at_the_same_time():
    # Each waits for the other: with one lock for both, neither would end.
    barrier = threading.Barrier(2)
    both = [Counted(barrier), Counted(barrier)]
    threads = [threading.Thread(target=lambda each=each: each.value) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert [each.value for each in both] == [[1], [1]]
