"""The letters of the demo's line images, as pen strokes: a small font of our own, so that the demo needs no font file.

A glyph is a tuple of strokes, a stroke an array of (x, y) points joined by straight pieces; y grows upwards, the
baseline is 0, small letters are 5 high, capitals and ascenders 7.5, tails reach down to -2.5. A glyph starts at x = 0.
"""

import numpy as np
from numpy.typing import NDArray

Stroke = NDArray[np.float64]

TOP = 7.5
BOTTOM = -2.5
SMALL = 5.0


def line(*coordinates: float) -> Stroke:
    """A stroke through the points x0, y0, x1, y1, ..."""
    return np.array(coordinates, dtype=np.float64).reshape(-1, 2)


def arc(x: float, y: float, width: float, height: float, start: float = 0.0, end: float = 360.0) -> Stroke:
    """A piece of the ellipse about (x, y) with radii `width` and `height`, from `start` to `end` degrees.

    0 degrees is to the right, 90 is up; an `end` below `start` draws clockwise.
    """
    angles = np.radians(np.linspace(start, end, 25))
    return np.stack((x + width * np.cos(angles), y + height * np.sin(angles)), axis=1)


def narrow_shoulder(x: float) -> tuple[Stroke, Stroke]:
    """One of the two arches of an m, beginning at `x`."""
    return arc(x + 1.5, 3.5, 1.5, 1.5, 180, 0), line(x + 3, 3.5, x + 3, 0)


BOWL = arc(2, 2.5, 2, 2.5)
LEFT_STEM = line(0, SMALL, 0, 0)
RIGHT_STEM = line(4, SMALL, 4, 0)
SHOULDER = (arc(2, 3, 2, 2, 180, 0), line(4, 3, 4, 0))

GLYPHS: dict[str, tuple[Stroke, ...]] = {
    "a": (BOWL, RIGHT_STEM),
    "b": (BOWL, line(0, TOP, 0, 0)),
    "c": (arc(2, 2.5, 2, 2.5, 50, 310),),
    "d": (BOWL, line(4, TOP, 4, 0)),
    "e": (arc(2, 2.5, 2, 2.5, 0, 315), line(0, 2.5, 4, 2.5)),
    "f": (arc(2.2, 6, 1.2, 1.5, 30, 180), line(1, 6, 1, 0), line(0, SMALL, 2.6, SMALL)),
    "g": (BOWL, line(4, SMALL, 4, -0.5), arc(2, -0.5, 2, 2, 0, -150)),
    "h": (line(0, TOP, 0, 0), *SHOULDER),
    "i": (LEFT_STEM, line(0, 7, 0, 7.2)),
    "j": (line(1.2, SMALL, 1.2, -1), arc(0, -1, 1.2, 1.5, 0, -90), line(1.2, 7, 1.2, 7.2)),
    "k": (line(0, TOP, 0, 0), line(3.6, SMALL, 0, 2), line(1.4, 3.1, 3.8, 0)),
    "l": (line(0, TOP, 0, 0),),
    "m": (LEFT_STEM, *narrow_shoulder(0), *narrow_shoulder(3)),
    "n": (LEFT_STEM, *SHOULDER),
    "o": (BOWL,),
    "p": (BOWL, line(0, SMALL, 0, BOTTOM)),
    "q": (BOWL, line(4, SMALL, 4, BOTTOM)),
    "r": (LEFT_STEM, arc(2, 3, 2, 2, 180, 60)),
    "s": (arc(1.8, 3.7, 1.6, 1.3, 30, 270), arc(1.8, 1.2, 1.7, 1.2, 90, -150)),
    "t": (line(1, 6.8, 1, 1.2), arc(2.2, 1.2, 1.2, 1.2, 180, 290), line(0, SMALL, 2.6, SMALL)),
    "u": (line(0, SMALL, 0, 2), arc(2, 2, 2, 2, 180, 360), RIGHT_STEM),
    "v": (line(0, SMALL, 2, 0, 4, SMALL),),
    "w": (line(0, SMALL, 1.4, 0, 3, SMALL, 4.6, 0, 6, SMALL),),
    "x": (line(0, SMALL, 4, 0), line(4, SMALL, 0, 0)),
    "y": (line(0, SMALL, 2.1, 0), line(4, SMALL, 1.2, BOTTOM, 0.2, BOTTOM)),
    "z": (line(0, SMALL, 4, SMALL, 0, 0, 4, 0),),
    "A": (line(0, 0, 2.7, TOP, 5.4, 0), line(1, 2.7, 4.4, 2.7)),
    "B": (
        line(2.5, TOP, 0, TOP, 0, 0, 2.8, 0),
        line(0, 3.9, 2.8, 3.9),
        arc(2.5, 5.7, 1.8, 1.8, 90, -90),
        arc(2.8, 1.95, 1.95, 1.95, 90, -90),
    ),
    "C": (arc(2.9, 3.75, 2.9, 3.75, 50, 310),),
    "G": (arc(2.9, 3.75, 2.9, 3.75, 50, 340), line(5.6, 2.7, 5.6, 3.6, 3.4, 3.6)),
    "D": (line(2, 0, 0, 0, 0, TOP, 2, TOP), arc(2, 3.75, 3, 3.75, 90, -90)),
    "E": (line(4.2, TOP, 0, TOP, 0, 0, 4.2, 0), line(0, 3.9, 3.7, 3.9)),
    "F": (line(4.2, TOP, 0, TOP, 0, 0), line(0, 3.8, 3.6, 3.8)),
    "H": (line(0, TOP, 0, 0), line(5, TOP, 5, 0), line(0, 3.9, 5, 3.9)),
    "I": (line(0, TOP, 0, 0),),
    "K": (line(0, TOP, 0, 0), line(4.8, TOP, 0, 2.8), line(1.8, 4.2, 5, 0)),
    "L": (line(0, TOP, 0, 0, 4, 0),),
    "M": (line(0, 0, 0, TOP, 3, 1.5, 6, TOP, 6, 0),),
    "N": (line(0, 0, 0, TOP, 5, 0, 5, TOP),),
    "O": (arc(2.9, 3.75, 2.9, 3.75),),
    "P": (line(0, 0, 0, TOP, 2.6, TOP), arc(2.6, 5.5, 2, 2, 90, -90), line(0, 3.5, 2.6, 3.5)),
    "R": (line(0, 0, 0, TOP, 2.6, TOP), arc(2.6, 5.6, 1.9, 1.9, 90, -90), line(0, 3.7, 2.6, 3.7, 4.8, 0)),
    "S": (arc(2.3, 5.6, 2.1, 1.9, 30, 270), arc(2.3, 1.85, 2.3, 1.85, 90, -150)),
    "T": (line(0, TOP, 5, TOP), line(2.5, TOP, 2.5, 0)),
    "0": (arc(2, 3.75, 2, 3.75),),
    "1": (line(0, 6, 1.6, TOP, 1.6, 0),),
    "2": (arc(2, 5.5, 2, 2, 160, -35), line(3.65, 4.35, 0, 0, 4.2, 0)),
    "3": (arc(2, 5.6, 1.9, 1.9, 150, -90), arc(2, 1.85, 2.1, 1.85, 90, -150)),
    "4": (line(3.1, 0, 3.1, TOP, 0, 2, 4.5, 2),),
    "5": (line(3.8, TOP, 0.6, TOP, 0.3, 4.2), arc(1.9, 2.4, 2.2, 2.4, 130, -140)),
    "6": (arc(2.1, 2.4, 2, 2.4), arc(4.4, 3, 4.3, 4.6, 180, 105)),
    "7": (line(0, TOP, 4.2, TOP, 1.4, 0),),
    "8": (arc(2, 5.7, 1.7, 1.8), arc(2, 1.95, 2, 1.95)),
    "9": (arc(2, 5.1, 2, 2.4), arc(-0.3, 4.5, 4.3, 4.5, 0, -75)),
    ".": (line(0, 0, 0, 0.2),),
    ":": (line(0, 0, 0, 0.2), line(0, 4, 0, 4.2)),
    "-": (line(0, 2.8, 2.4, 2.8),),
}
