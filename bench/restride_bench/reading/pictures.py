"""Parts of a picture: lines of text that may be tilted, cut out as they would stand upright."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from restride.runtime.alloc import Array

# How far a found shape is from the edge of its line: 1.6 times area over circumference.
_MARGIN = 1.6


@dataclass(frozen=True, slots=True, eq=False)
class TextLine:
    """A tilted rectangle: its center (y, x), the unit vector along it, and its half width and half height."""

    center: Array
    along: Array
    width: float
    height: float

    @property
    def across(self) -> Array:
        """The unit vector from top to bottom."""
        return np.array([self.along[1], -self.along[0]])

    def turned(self) -> TextLine:
        """The same, read from the other end."""
        return TextLine(self.center, -self.along, self.width, self.height)

    @classmethod
    def around(cls, points: Array) -> TextLine:
        """The rectangle of points (n, 2) along the direction in which they spread, and the margin around."""
        middle = points.mean(0)
        along = np.linalg.svd(points - middle, full_matrices=False)[2][0]
        along = along if along[1] >= 0 else -along
        across = np.array([along[1], -along[0]])
        places = (points - middle) @ np.stack([along, across], 1)
        low, high = places.min(0) - 0.5, places.max(0) + 0.5
        center = middle + (low[0] + high[0]) / 2 * along + (low[1] + high[1]) / 2 * across
        width, height = (high - low) / 2
        margin = _MARGIN * width * height / (width + height)
        return cls(center, along, float(width + margin), float(height + margin))

    def cut(
        self, picture: Array, scale: tuple[float, float], height: int, most_columns: int = 1 << 14
    ) -> Array:
        """The line as an upright picture of so many rows, squeezed where it has more columns than it may.

        `scale`: (y, x) from the line's pixels to those of the picture.
        """
        columns = min(max(1, round(height * self.width / self.height)), most_columns)
        x = (np.arange(columns) + 0.5) / columns * 2 * self.width - self.width
        y = (np.arange(height) + 0.5) / height * 2 * self.height - self.height
        places = self.center + y[:, None, None] * self.across + x[None, :, None] * self.along
        return sampled(picture, places * scale)


def sampled(picture: Array, places: Array) -> Array:
    """A picture (h, w, c) at places (..., 2) between its pixels, as f32 from 0 to 1; its edge goes on."""
    last = np.array(picture.shape[:2]) - 1
    places = np.clip(places, 0, last)
    corner = np.minimum(places.astype(np.intp), np.maximum(last - 1, 0))
    y, x = np.moveaxis(places - corner, -1, 0)[..., None]
    top, left = np.moveaxis(corner, -1, 0)
    below, right = np.minimum(top + 1, last[0]), np.minimum(left + 1, last[1])
    upper = picture[top, left] * (1 - x) + picture[top, right] * x
    lower = picture[below, left] * (1 - x) + picture[below, right] * x
    mixed: Array = (upper * (1 - y) + lower * y) / 255
    return mixed.astype(np.float32)


def resized(picture: Array, extents: tuple[int, int]) -> Array:
    """A picture (h, w, c) of u8 with other extents, as f32 from 0 to 1."""
    scale = np.array(picture.shape[:2]) / extents
    y, x = ((np.arange(n) + 0.5) * s - 0.5 for n, s in zip(extents, scale, strict=True))
    return sampled(picture, np.stack(np.broadcast_arrays(y[:, None], x[None, :]), -1))


def runs_of(mask: Array) -> list[Array]:
    """The points (n, 2) of each connected part of a mask, from the top down. Diagonals connect."""
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        padded = np.pad(labels, 1)
        shifts = [
            padded[y : y + labels.shape[0], x : x + labels.shape[1]] for y in range(3) for x in range(3)
        ]
        largest = np.where(mask, np.maximum.reduce(shifts), 0)
        if (largest == labels).all():
            break
        # What a label points at is of the same part: labels jump, and do not creep.
        labels = np.where(mask, largest.ravel()[np.maximum(largest, 1) - 1], 0)
    points = np.argwhere(mask)
    of_points = labels[mask]
    parts = [points[of_points == label].astype(np.float64) for label in np.unique(of_points)]
    return sorted(parts, key=lambda part: float(part[:, 0].mean()))
