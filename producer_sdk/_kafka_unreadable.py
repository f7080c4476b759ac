"""Reading past records with a header name that is not UTF-8: any C client can write one, and aiokafka cannot skip it.

aiokafka decodes a batch from its start, so neither the record nor what follows it in the batch can be reached by any
seek. Here the partition is fetched once more, such names are made readable in the bytes, and aiokafka reads those.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aiokafka import ConsumerRecord
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException, KafkaError, NoError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy as Batch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c, decode_varint

from ._kafka_haul import Hauled
from ._kafka_options import KafkaOptions

UNREADABLE = (UnicodeDecodeError, CorruptRecordException)

_FIRST_MAGIC_WITH_HEADERS = 2
_LENGTH_AT, _MAGIC_AT = 8, 16
_OVERHEAD = 12  # bytes of a batch that its length does not count
_FETCH_WAIT_MS = 100

log = logging.getLogger(__name__)


class Mended(NamedTuple):
    """Bytes of batches that aiokafka can read, and the offsets of the records that were changed for it."""

    batches: bytes
    offsets: frozenset[int]


class _Fetched(NamedTuple):
    batches: bytes
    aborted: Any


def is_unreadable(err: BaseException) -> bool:
    """Whether a header name was at fault; aiokafka without its extensions wraps that error."""
    return isinstance(err, UnicodeDecodeError) or isinstance(err.__cause__, UnicodeDecodeError)


def positions_of_fetched(consumer: Any) -> dict[KafkaPartition, int]:
    """The next offset of each partition of which records wait in aiokafka's hands."""
    assignment = consumer._subscription.subscription.assignment
    positions = {}
    for partition in consumer._fetcher._records:
        state = assignment.state_value(partition)
        if state is not None and state.has_valid_position:
            positions[partition] = state.position
    return positions


def rewind(consumer: Any, positions: Mapping[KafkaPartition, int]) -> None:
    """Take back a read that failed: what it had drained of other partitions is lost with it."""
    assignment = consumer._subscription.subscription.assignment
    for partition, position in positions.items():
        if assignment.state_value(partition).position != position:
            consumer.seek(partition, position)


async def mend(consumer: Any, options: KafkaOptions, err: Exception) -> KafkaPartition | None:
    """Replace the fetched records that raised `err` by readable ones; the partition, to be read before any other.

    None when it did not work out now: the next read runs into the error again. The caller has rewound, and there has
    been no await since the error.

    Raises:
        CorruptRecordException: no such name was found, so that trying again would not help.
    """
    fetcher = consumer._fetcher
    partition = _at_fault(fetcher)
    if partition is None:
        raise CorruptRecordException("a record cannot be decoded, and which one cannot be told") from err
    # While the spent result stays in its place, aiokafka fetches nothing of the partition.
    spent = fetcher._records[partition]
    position = spent._assignment.state_value(partition).position
    fetched = await _fetch(consumer, options, partition, position)
    if fetched is None:
        await asyncio.sleep(options.retry_backoff_s)
        return None
    mended = await asyncio.to_thread(mend_batches, fetched.batches, options.check_crcs)
    if not mended.offsets:
        raise CorruptRecordException(f"a record of {partition} from offset {position} cannot be decoded") from err
    if not spent._assignment.active or fetcher._records.get(partition) is not spent:
        return None
    records = _MendedRecords(
        partition, MemoryRecords(mended.batches), fetched.aborted, position, None, None, options.check_crcs,
        READ_COMMITTED,
    )  # fmt: skip
    records.unreadable = mended.offsets
    fetcher._records[partition] = FetchResult(
        partition, assignment=spent._assignment, partition_records=records, backoff=fetcher._prefetch_backoff
    )
    return partition


def mend_batches(batches: bytes, check_crcs: bool) -> Mended:
    """Make header names readable; all else stays, batches without such names and an incomplete one at the end too."""
    parts, offsets, start = [], set[int](), 0
    while len(batches) - start > _MAGIC_AT:
        end = start + _OVERHEAD + int(struct.unpack_from(">i", batches, start + _LENGTH_AT)[0])
        if not start + _MAGIC_AT < end <= len(batches):
            break
        part = batches[start:end]
        if part[_MAGIC_AT] >= _FIRST_MAGIC_WITH_HEADERS:
            part, found = _mend_batch(part, check_crcs)
            offsets |= found
        parts.append(part)
        start = end
    return Mended(b"".join([*parts, batches[start:]]), frozenset(offsets))


class _MendedRecords(PartitionRecords):  # type: ignore[misc]
    """Hands on a stand-in in place of each record that was mended: its place is all that is sure of it."""

    unreadable: frozenset[int] = frozenset()

    def _consumer_record(self, tp: KafkaPartition, record: Any) -> Any:
        if record.offset not in self.unreadable:
            return super()._consumer_record(tp, record)
        log.warning(
            "The record at offset %d of topic %r partition %d has a header name that is not UTF-8: it is passed on "
            "without its content, which stays in the topic.",
            record.offset,
            tp.topic,
            tp.partition,
            extra={"action": "unreadable_header"},
        )
        return ConsumerRecord(tp.topic, tp.partition, record.offset, -1, record.timestamp_type, None, None, None,
                              -1, -1, ())  # fmt: skip


def _at_fault(fetcher: Any) -> KafkaPartition | None:
    """The partition whose records ended in an error; of mended ones, the generator has ended without notice then."""
    for partition, result in fetcher._records.items():
        if type(result) is FetchResult and result.has_more():
            held = result._partition_records
            if isinstance(held, Hauled):
                failed = held.failed
            else:
                failed = (iterator := held._records_iterator) is not None and iterator.gi_frame is None
            if failed:
                return KafkaPartition(*partition)
    return None


async def _fetch(consumer: Any, options: KafkaOptions, partition: KafkaPartition, offset: int) -> _Fetched | None:
    """The partition's bytes from an offset; None when its broker does not give them now."""
    node = consumer._fetcher._select_read_replica(partition)
    if node is None or node == -1:
        return None
    wanted = [(partition.topic, [(partition.partition, offset, options.partition_fetch_bytes)])]
    request = FetchRequest(_FETCH_WAIT_MS, 1, options.fetch_max_bytes, READ_COMMITTED, wanted, rack_id="")
    try:
        response = await consumer._client.send(node, request)
    except KafkaError:
        return None
    for _, partitions in response.topics:
        for _, error_code, _, *rest in partitions:
            if for_code(error_code) is NoError and rest[-1]:
                version = response.API_VERSION
                return _Fetched(bytes(rest[-1]), rest[2] if version >= 11 else rest[-2] if version >= 4 else None)
    return None


def _mend_batch(whole: bytes, check_crcs: bool) -> tuple[bytes, set[int]]:
    batch = Batch(whole)
    if batch.is_control_batch or (check_crcs and not batch.validate_crc()):
        return whole, set()
    batch._maybe_uncompress()
    content, offsets = batch._buffer[batch._pos :], set()
    try:
        for delta, start, end in _header_names(content, batch._header_data[-1]):
            if not _is_utf8(content[start:end]):
                content[start:end] = b"?" * (end - start)
                offsets.add(batch.base_offset + delta)
    except (IndexError, ValueError):
        pass  # aiokafka says what is wrong when it comes to that record
    return (_packed(whole, content), offsets) if offsets else (whole, offsets)


def _header_names(content: bytearray, records: int) -> Iterator[tuple[int, int, int]]:
    """Of each header of each record: the offset within the batch, and where the name starts and ends."""
    at = 0
    for _ in range(records):
        length, at = decode_varint(content, at)
        end = at + length
        _, at = decode_varint(content, at + 1)  # behind the attributes: the timestamp
        delta, at = decode_varint(content, at)
        for _ in ("key", "value"):
            size, at = decode_varint(content, at)
            at += max(0, size)
        headers, at = decode_varint(content, at)
        for _ in range(headers):
            size, at = decode_varint(content, at)
            yield delta, at, at + size
            size, at = decode_varint(content, at + size)
            at += max(0, size)
        if at != end:
            raise ValueError(f"a record ends at {at} instead of {end}")


def _is_utf8(name: bytearray) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _packed(whole: bytes, content: bytearray) -> bytes:
    """A batch with other content, not compressed."""
    packed = bytearray(whole[: Batch.HEADER_STRUCT.size]) + content
    struct.pack_into(">i", packed, _LENGTH_AT, len(packed) - _OVERHEAD)
    attributes = struct.unpack_from(">h", packed, Batch.ATTRIBUTES_OFFSET)[0] & ~Batch.CODEC_MASK
    struct.pack_into(">h", packed, Batch.ATTRIBUTES_OFFSET, attributes)
    struct.pack_into(">I", packed, Batch.CRC_OFFSET, calc_crc32c(bytes(packed[Batch.ATTRIBUTES_OFFSET :])))
    return bytes(packed)
