"""Writes schemas/: `python tests/contract/generate.py`. Everything there but README.md comes from here."""

import json
from pathlib import Path
from typing import Any

import msgspec
import rendition
from asyncapi_document import document
from golden_codecs import all_messages, codec_of, read_reply, read_request
from golden_messages import FALLBACK_ID, TIMESTAMP_MS, Golden
from schema_documents import documents

from producer_sdk.announcements import decode_announcement
from producer_sdk.cancels import read_cancel

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
ABOUT = (
    "Golden messages. `kind`: request, refused (answered with an error), undecodable (a dead letter), reply, error, "
    "announcement, cancel. `reads_as` is what a reader must find; a tensor is shown as datatype, shape and the base64 "
    "of its elements, row-major and little-endian. Requests are read as if they had lain at the topic, partition and "
    "offset that `fallback_id` names, with the timestamp given. A record of a codec has the header content-type."
)


def form_of(golden: Golden) -> str:
    return golden.file.rpartition(".")[2]


def schema_of(golden: Golden) -> str | None:
    """The JSON Schema that the message keeps to, none for broken ones and those of codecs."""
    if codec_of(golden.file) is not None:
        return None
    if golden.kind not in ("request", "reply", "error", "announcement", "cancel"):
        return None
    return f"{golden.kind}.msgpack.v1.json" if form_of(golden) == "msgpack" else f"{golden.kind}.v1.json"


def reads_as(golden: Golden) -> Any:
    match golden.kind:
        case "request" | "refused":
            return rendition.message(read_request(golden))
        case "reply" | "error":
            return rendition.message(read_reply(golden))
        case "announcement":
            assert decode_announcement(golden.value) is not None
            return json.loads(golden.value)
        case "cancel":
            return msgspec.to_builtins(read_cancel(golden.value))
    return None


def index() -> dict[str, Any]:
    messages = [
        {
            "file": golden.file,
            "kind": golden.kind,
            "form": form_of(golden),
            "shows": golden.shows,
            "schema": schema_of(golden),
            "reads_as": reads_as(golden),
        }
        | ({} if (codec := codec_of(golden.file)) is None else {"content_type": codec.content_types[0]})
        for golden in all_messages()
    ]
    return {"about": ABOUT, "fallback_id": FALLBACK_ID, "timestamp_ms": TIMESTAMP_MS, "messages": messages}


def written(document: Any) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def files() -> dict[str, bytes]:
    """Path below schemas/ -> content, for everything that is generated."""
    found = {file: written(document) for file, document in documents().items()}
    found["asyncapi.v1.json"] = written(document())
    found |= {f"examples/{golden.file}": golden.value for golden in all_messages()}
    return found | {"examples/index.json": written(index())}


def main() -> None:
    (SCHEMAS / "examples").mkdir(parents=True, exist_ok=True)
    wanted = files()
    for path in [*SCHEMAS.glob("*.json"), *SCHEMAS.glob("examples/*")]:
        if str(path.relative_to(SCHEMAS)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        (SCHEMAS / name).write_bytes(content)


if __name__ == "__main__":
    main()
