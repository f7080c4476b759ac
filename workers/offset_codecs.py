"""Offsets as few bytes: numbers, ascending offsets, and two codecs for which offsets above a base are completed. Pure.

Writers want ascending offsets at or above the base; the last offset of a map is completed. Readers take any bytes, read
theirs off the iterator, and raise ValueError for what no writer wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

MAX_OFFSET = 2**63 - 1
MAX_INCOMPLETE = 100_000  # more than a backlog holds, since a few bytes can claim any number
MAX_COUNT = 4096  # of anything that has bytes of its own: as many as fit beside an offset


def write_number(value: int) -> bytes:
    """Seven bits a byte, lowest first, the top bit set on all but the last (LEB128)."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def read_number(data: Iterator[int], most: int = MAX_OFFSET) -> int:
    value = shift = 0
    for byte in islice(data, 9):  # of seven bits: up to MAX_OFFSET
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _bounded(value, most)
        shift += 7
    raise ValueError("a number is cut off or too large")


def _bounded(value: int, most: int = MAX_OFFSET) -> int:
    if value > most:
        raise ValueError("more than there can be")
    return value


def write_offsets(base: int, offsets: Sequence[int]) -> bytes:
    """How many there are, then each as its distance from the one before, the first from the base."""
    distances = (offset - before for offset, before in zip(offsets, (base, *offsets), strict=False))
    return write_number(len(offsets)) + b"".join(map(write_number, distances))


def read_offsets(base: int, data: Iterator[int]) -> list[int]:
    distances = [read_number(data) for _ in range(read_number(data, MAX_COUNT))]
    offsets = [base + distance for distance in accumulate(distances)]
    _bounded(max(offsets, default=0))
    return offsets


def bitset_bytes(base: int, highest: int) -> int:
    """Bytes of bits that the bitset of this range needs, without the length before them."""
    return (highest - base) // 8 + 1


def write_bitset(base: int, highest: int, incomplete: Iterable[int]) -> bytes:
    """The length in bytes, then a bit an offset from the base on, lowest first, 1 for completed, up to `highest`."""
    length = bitset_bytes(base, highest)
    bits = bytearray(((1 << (highest + 1 - base)) - 1).to_bytes(length, "little"))
    for offset in incomplete:
        place = offset - base
        bits[place >> 3] ^= 1 << (place & 7)
    return write_number(length) + bits


def read_bitset(base: int, data: Iterator[int]) -> tuple[int, tuple[int, ...]]:
    """The highest completed offset, and the incomplete ones below it."""
    length = read_number(data, MAX_COUNT)
    bits = bytes(islice(data, length))
    if len(bits) != length or not bits or not bits[-1]:
        raise ValueError("the bits are cut off or end without a completed offset")
    places = 8 * (length - 1) + bits[-1].bit_length()
    incomplete = tuple(base + place for place in range(places) if not bits[place >> 3] >> (place & 7) & 1)
    return _bounded(base + places - 1), incomplete


def run_lengths(base: int, highest: int, incomplete: Iterable[int]) -> list[int]:
    """Alternate runs from the base to `highest`: of incomplete offsets (0 only at the base), of completed ones."""
    lengths: list[int] = []
    begin = end = base
    for offset in incomplete:
        if offset != end:
            lengths += (end - begin, offset - end)
            begin = offset
        end = offset + 1
    lengths += (end - begin, highest + 1 - end)
    return lengths


def write_runs(lengths: Sequence[int]) -> bytes:
    """The number of pairs of runs, then their lengths, from `run_lengths`."""
    return write_number(len(lengths) // 2) + b"".join(map(write_number, lengths))


def read_runs(base: int, data: Iterator[int]) -> tuple[int, tuple[int, ...]]:
    """The highest completed offset, and the incomplete ones below it."""
    pairs = [(read_number(data), read_number(data)) for _ in range(read_number(data, MAX_COUNT))]
    if not pairs or not all(waiting for waiting, _ in pairs[1:]) or not all(completed for _, completed in pairs):
        raise ValueError("the runs do not alternate")
    _bounded(sum(waiting for waiting, _ in pairs), MAX_INCOMPLETE)
    _bounded(base + sum(waiting + completed for waiting, completed in pairs) - 1)
    incomplete: list[int] = []
    at = base
    for waiting, completed in pairs:
        incomplete += range(at, at + waiting)
        at += waiting + completed
    return at - 1, tuple(incomplete)
