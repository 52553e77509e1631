"""Functions of elements of exported modules: integers, truth values and types as torch promotes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import restride as rs

torch = pytest.importorskip("torch")
import restride.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def whole(seed: int = 0, dims: tuple[int, ...] = (3, 4)) -> Any:
    return torch.randint(-50, 50, dims, generator=torch.Generator().manual_seed(seed))


def real(seed: int = 0) -> Any:
    return torch.randn((3, 4), generator=torch.Generator().manual_seed(seed)) * 3


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "integers": (lambda x, y: (x + y) * 3 - x // 2 + x % 5, (whole(), whole(1))),
    "powers": (lambda x: x**2 + x**3, (whole(),)),
    "bits": (lambda x, y: (x & y) | (x ^ 3) | (~y) + (x << 2) + (x >> 1), (whole(), whole(1))),
    "largest": (lambda x, y: torch.maximum(x, y) - torch.minimum(x, y).clamp(2, 7), (whole(), whole(1))),
    "signs": (lambda x: -x + abs(x) + x.sign(), (whole(),)),
    "true quotients": (lambda x, y: x / 2 + y + 1 / (x.abs() + 1), (whole(), real())),
    "mixed types": (lambda x, y: x * y + 1, (real(), whole(0, (4,)))),
    "comparisons": (lambda x, y: torch.where(x > y, x, y * 0.5) + (x == y), (real(), real(1))),
    "masks": (lambda x: x.masked_fill(x < 0, -1e9), (real(),)),
    "truth values": (
        lambda x, y: torch.logical_and(x > 0, y > 0) | torch.logical_not(y > 1),
        (real(), real(1)),
    ),
    "casts": (lambda x: x.to(torch.int64) + x.half().long() + (x > 0), (real(),)),
    "rounding": (
        lambda x: torch.floor(x) + torch.ceil(x) + torch.trunc(x) + x.sign() + torch.frac(x),
        (real(),),
    ),
    "sines": (lambda x, y: torch.sin(x) + torch.cos(x) * torch.tan(x) + torch.sin(y), (real(), whole())),
    "others": (
        lambda x: torch.erf(x) + torch.atan2(x, x + 1) + torch.expm1(x) + torch.log1p(x.abs()),
        (real(),),
    ),
    "exponents": (lambda x, y: x.abs() ** y + 2**x + x**2, (real(), real(1))),
    "remainders": (
        lambda x, y: torch.fmod(x, y) + torch.remainder(x, y) + torch.floor_divide(x, y),
        (real(), real(1)),
    ),
    "blends": (lambda x, y: torch.lerp(x, y, y) + torch.addcmul(x, y, y, value=0.5), (real(), real(1))),
    "activations": (
        lambda x: (
            torch.celu(x, 0.5)
            + torch.selu(x)
            + torch.nn.functional.hardshrink(x)
            + torch.threshold(x, 0.1, 0.2)
        ),
        (real(),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_those_of_torch(name: str) -> None:
    function, example = CASES[name]

    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    wanted = function(*example)
    found = rs.torch.compile_module(Module().eval(), example)(*example)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
