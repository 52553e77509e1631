"""Laboratory: look at a layout, ask what a reorder runs and why, measure it, read an error.

python examples/laboratory.py
"""

import tempfile
from pathlib import Path

import numpy as np

import restride as rs

# A layout, drawn and in words.
md = rs.MemoryDesc((1, 20, 2, 2), "f32", "nChw8c")
md.show()
print(md.explain())

# Where one element lies, and which element lies there.
place = md.offset(0, 17, 1, 0)
print(f"\nelement (0, 17, 1, 0) lies at {place}; at it lies {md.index(place)}")

# A warp of a GPU reads columns of a 32 x 32 tile, in CuTe's notation, without and with a swizzle.
tile = rs.layouts.Layout("(32,32):(32,1)")
for layout in tile, rs.layouts.Swizzle(5, 0, 5).compose(tile):
    print(f"{layout}: {rs.layouts.bank_conflicts(layout, itemsize=4).worst} lanes in the busiest bank")

# What a reorder runs and why; its schedule is the list of transforms of its loops.
x = np.random.default_rng(0).random((8, 64, 56, 56), np.float32)
plan = rs.plan(x, "nChw16c")
print(f"\n{plan}")
speed = plan.measure()
print(f"measured: {speed.seconds * 1e6:.0f} us, {speed.moved_bytes / speed.seconds / 1e9:.0f} GB/s")

# An error has a code; `restride explain CODE` says what to do.
try:
    rs.reorder(x, "nhcw16z")
except rs.Error as error:
    print(f"\n{error}")

# A picture; `restride show nchw 1x20x2x2 --dst nChw8c --html page.html` makes a page to click on.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "layout.svg")
    path.write_text(md._repr_svg_(), encoding="utf-8")
    print(f"picture: {path.stat().st_size:,} bytes")
