"""Kernels of contractions are of any size: what a launch brings; layers, images and batches share code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.schedule.contraction.kernel import LaunchNumber
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered
from support.contractions import ConvolutionShape, check_contraction, convolution_tree, product_tree
from support.kernels import isa_id, runnable

CPU = rs.Engine("cpu")
_BLOCKED = {
    "f32 f32": ("nChw16c", "OIhw16i16o", "nChw16c"),
    "bf16 bf16": ("nChw16c", "OIhw8i16o2i", "nChw16c"),
    "u8 s8": ("nChw16c", "OIhw4i16o4i", "nChw16c"),
    "s8 s8": ("nChw16c", "OIhw4i16o4i", "nChw16c"),
}
_WIDE = Isa.for_name("avx512")
_WIDE = replace(_WIDE, features=f"{_WIDE.features},+avx512vnni,+avx512bf16")
_LEVELS = [_WIDE, Isa.for_name("avx2"), Isa.for_name("neon")]


def _resnet_50(batch: int) -> Iterator[ConvolutionShape]:
    """The 53 convolutions; the first one of 16 channels, as its formats are others."""
    yield ConvolutionShape(batch, 1, 16, 64, 224, 224, (7, 7), 2, 3)
    inputs, size = 64, 56
    for stage, (middle, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            after = size // stride
            yield ConvolutionShape(batch, 1, inputs, middle, size, size, (1, 1), 1, 0)
            yield ConvolutionShape(batch, 1, middle, middle, size, size, (3, 3), stride, 1)
            yield ConvolutionShape(batch, 1, middle, 4 * middle, after, after, (1, 1), 1, 0)
            if not block:
                yield ConvolutionShape(batch, 1, inputs, 4 * middle, size, size, (1, 1), stride, 0)
            inputs, size = 4 * middle, after


def _lowered(shape: ConvolutionShape, types: str, level: Isa) -> Lowered:
    descs = shape.descs(*_BLOCKED[types], *types.split())
    found = lower_contraction(convolution_tree(shape, descs), level, CacheSizes())
    assert found is not None
    return found


@pytest.mark.parametrize(("types", "level"), [("f32 f32", 0), ("u8 s8", 0), ("f32 f32", 1), ("f32 f32", 2)])
def test_the_layers_of_resnet_50_are_few_kernels_whatever_the_batch(types: str, level: int) -> None:
    plans = set[object]()
    kernels = dict[int, set[object]]()
    for batch in (1, 2, 4, 8):
        layers = list(_resnet_50(batch))
        assert len(layers) == 53
        lowered = [_lowered(shape, types, _LEVELS[level]) for shape in dict.fromkeys(layers)]
        plans |= {each.plan for each in lowered}
        kernels[batch] = {each.key for each in lowered}
    assert len(plans) == 92
    assert len(kernels[1]) <= 16
    # Of 8 images of 7 by 7 a tile has a row for each image, of fewer for each column.
    assert kernels[2] | kernels[4] <= kernels[1]
    assert len(kernels[8] - kernels[1]) <= 3


@pytest.mark.parametrize("types", _BLOCKED)
def test_another_batch_image_or_number_of_channels_brings_other_numbers_alone(types: str) -> None:
    one = _lowered(ConvolutionShape(1, 1, 64, 64, 28, 28), types, _LEVELS[0])
    for other in (
        ConvolutionShape(5, 1, 64, 64, 28, 28),
        ConvolutionShape(1, 1, 64, 64, 9, 28),
        ConvolutionShape(3, 1, 128, 96, 12, 28),
    ):
        found = _lowered(other, types, _LEVELS[0])
        assert found.key == one.key
        assert found.ir() == one.ir()
        assert found.numbers != one.numbers
    assert _lowered(ConvolutionShape(1, 1, 64, 64, 28, 27), types, _LEVELS[0]).key != one.key


def test_products_of_more_rows_share_a_kernel() -> None:
    keys = set()
    for batch, rows in ((1, 28), (1, 140), (3, 56)):
        dims = (batch, rows, 64), (batch, 64, 96), (batch, rows, 96)
        tags = "abc", "aCb32c", "abc"
        descs = [MemoryDesc(d, "f32", tag) for d, tag in zip(dims, tags, strict=True)]
        found = lower_contraction(product_tree(*descs), _LEVELS[0], CacheSizes())
        assert found is not None
        keys.add(found.key)
    assert len(keys) == 1


def test_a_second_batch_size_compiles_nothing() -> None:
    codes = set()
    for batch in (1, 2, 3):
        dims = (batch, 24, 11, 13), (40, 24, 3, 3), (batch, 40, 11, 13)
        src, weights, dst = (rs.MemoryDesc(d, "f32", "any") for d in dims)
        pd = rs.ConvolutionForward.PrimitiveDesc(
            CPU, "forward_inference", "convolution_direct", src, weights, dst, [1, 1], [1, 1], [1, 1]
        )
        codes.update(launch.kernel(0).code for launch in pd._impl.executable.launches)
    assert len(codes) == 1


_WIDEST = runnable()[-1]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    "isa",
    [*(pytest.param(each, marks=pytest.mark.slow, id=isa_id(each)) for each in runnable()[:-1]), _WIDEST],
)
@pytest.mark.parametrize("types", _BLOCKED)
@pytest.mark.parametrize(
    ("inputs", "outputs", "width", "window"),
    [(20, 33, 7, ((3, 3), 1, 1)), (48, 40, 7, ((1, 1), 1, 0)), (36, 20, 13, ((3, 5), 2, 2))],
)
def test_one_code_does_all_sizes_within_its_pages(
    inputs: int, outputs: int, width: int, window: tuple[tuple[int, int], int, int], types: str, isa: Isa
) -> None:
    keys = set()
    for batch, height, parts, at_end in ((1, 6, 1, True), (2, 5, 3, True), (3, 4, 64, False)):
        shape = ConvolutionShape(batch, 1, inputs, outputs, height, width, *window)
        descs = shape.descs(*_BLOCKED[types], *types.split())
        tree = convolution_tree(shape, descs, is_relu=True)
        lowered = lower_contraction(tree, isa, CacheSizes())
        if lowered is None:
            assert isa.name != "avx512"
            return
        keys.add(lowered.key)
        # Of more parts than there are tiles some have none.
        check_contraction(tree, descs, isa, at_end=at_end, parts=parts)
    # Rows of images are one row where no window keeps them apart: their number decides what is left of it.
    assert len(keys) == 1 or window[0] == (1, 1)


def test_channels_in_lanes_bring_no_numbers() -> None:
    shape = ConvolutionShape(2, 32, 1, 1, 9, 9)
    tree = convolution_tree(shape, shape.descs("nChw16c", "Goihw16g", "nChw16c"))
    found = lower_contraction(tree, _LEVELS[0], CacheSizes())
    assert found is not None
    assert not found.numbers
    assert "LaunchNumber" not in repr(found.code)


def test_numbers_stand_where_the_kernel_says() -> None:
    found = _lowered(ConvolutionShape(3, 1, 64, 64, 12, 28), "f32 f32", _LEVELS[0])
    grid = found.code.grid

    def brought(number: int | LaunchNumber) -> int:
        assert isinstance(number, LaunchNumber)
        return found.numbers[number.place]

    assert brought(grid.steps) == found.plan.steps
    extents = list(map(brought, grid.extents))
    assert sorted(extents) == sorted([3, 12, found.plan.groups, found.plan.tiling.count])
    # Padding of 1 above: the first row of windows begins before the image.
    assert brought(grid.starts[0]) == -4 * 16 * (28 + 1)
