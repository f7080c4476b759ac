"""Draws lines of text, upright and turned by 180 degrees, as the text-direction classifier wants them.

The classifier takes 3 x 48 x 192 pixels: the line scaled to a height of 48 with its ratio kept (squeezed when it would
be wider than 192), values from -1 (black) to 1 (white), and zeros to the right of a shorter line.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from headrace.demo.glyphs import BOTTOM, GLYPHS, TOP, Stroke
from headrace.demo.question import Question

MODEL = "text_direction"
INPUT = "x"
LABELS = ("0", "180")
CHANNELS, HEIGHT, WIDTH = 3, 48, 192

# Several letters each: of one short word even a reader cannot always say which way up it is.
LINES = (
    "Every request",
    "gets an answer",
    "batch of rows",
    "The quick brown fox",
    "jumps over the dog",
    "Invoice 2041",
    "Handle with care",
    "Departure 12:45",
)

PIXELS_PER_UNIT = 6
PEN = 0.9
GAP = 2.2
SPACE = 2.4
MARGIN = GAP / 2

Image = NDArray[np.float32]


def draw_line(text: str) -> Image:
    """A line of `text` in black (0) on white (255), height x width. Raises ValueError for a letter the font lacks."""
    missing = sorted(set(text) - set(GLYPHS) - {" "})
    if missing or not text.strip():
        raise ValueError(f"The demo's font cannot draw {text!r}: it has no {missing or 'way to draw an empty line'}.")
    ink = np.concatenate([_letter(character) for character in text.strip()], axis=1)
    return 255 * (1 - ink)


@cache
def _letter(character: str) -> Image:
    """The ink (0 to 1) of one character with half a gap on each side, on a canvas as high as the line."""
    strokes = GLYPHS.get(character, ())
    width = max((float(stroke[:, 0].max()) for stroke in strokes), default=SPACE - GAP)
    rows = round((TOP - BOTTOM + 2 * MARGIN) * PIXELS_PER_UNIT)
    columns = round((width + GAP) * PIXELS_PER_UNIT)
    y = TOP + MARGIN - (np.arange(rows) + 0.5) / PIXELS_PER_UNIT
    x = (np.arange(columns) + 0.5) / PIXELS_PER_UNIT - GAP / 2
    pixels = np.stack(np.meshgrid(x, y), axis=-1)
    distance = np.full((rows, columns), np.inf)
    for stroke in strokes:
        distance = np.minimum(distance, _distance(pixels, stroke))
    return np.clip((PEN / 2 - distance) * PIXELS_PER_UNIT + 0.5, 0, 1).astype(np.float32)


def _distance(pixels: NDArray[np.float64], stroke: Stroke) -> NDArray[np.float64]:
    """How far each pixel is from the nearest point of a stroke."""
    start, piece = stroke[:-1], np.diff(stroke, axis=0)
    offset = pixels[:, :, None, :] - start
    along = np.clip((offset * piece).sum(-1) / (piece * piece).sum(-1), 0, 1)
    nearest: NDArray[np.float64] = np.linalg.norm(offset - along[..., None] * piece, axis=-1).min(-1)
    return nearest


def turned(image: Image) -> Image:
    """The image turned by 180 degrees."""
    return image[::-1, ::-1]


def classifier_input(image: Image) -> Image:
    """An image of values 0 to 255, height x width, as one row of the classifier's input: 3 x 48 x 192."""
    height, width = image.shape
    resized_width = min(WIDTH, -(-HEIGHT * width // height))
    resized = _averages(height, HEIGHT) @ image @ _averages(width, resized_width).T
    tensor = np.zeros((CHANNELS, HEIGHT, WIDTH), dtype=np.float32)
    tensor[:, :, :resized_width] = (resized / 255 - 0.5) / 0.5
    return tensor


def _averages(source: int, target: int) -> Image:
    """The matrix (target x source) that resizes one axis by area: each row averages the source pixels it covers."""
    edges = np.arange(target + 1) * source / target
    pixel = np.arange(source)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights = np.clip(covered, 0, None).astype(np.float32)
    averages: Image = weights / weights.sum(axis=1, keepdims=True)
    return averages


def questions(lines: tuple[str, ...] = LINES) -> list[Question]:
    """Each line twice: upright (the answer is 0) and turned (180)."""
    found = []
    for text in lines:
        image = draw_line(text)
        for label, view in zip(LABELS, (image, turned(image)), strict=True):
            inputs = {INPUT: classifier_input(view)[None]}
            found.append(Question(f"'{text}' at {label}°", MODEL, inputs, (label,)))
    return found
