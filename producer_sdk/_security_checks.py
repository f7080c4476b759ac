"""What is wrong with security settings, as sentences: values that do not fit together, files that cannot be used.

`values` are the fields of `Security`, `names` what they are called where they were set.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
_TLS = ("cafile", "certfile", "keyfile", "key_password")
_SASL = ("sasl_mechanism", "username", "password", "token")
_FILES = ("cafile", "certfile", "keyfile")


def fault_of(values: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    """What contradicts what; None where all fits. Pure."""
    called = _called(values, names)
    name, protocol = called["protocol"], values["protocol"]
    if protocol not in PROTOCOLS:
        return f"{name} {protocol!r}: use one of {', '.join(PROTOCOLS)}"
    given = {field for field, value in values.items() if value is not None}
    if not _uses_sasl(values) and (idle := _first(_SASL, given)):
        use = "set it to SASL_SSL (or SASL_PLAINTEXT), or leave it out"
        return f"{called[idle]} has no effect with {name} {protocol}: {use}"
    if not _uses_tls(values) and (idle := _first(_TLS, given)):
        return f"{called[idle]} has no effect with {name} {protocol}: set it to SSL or SASL_SSL, or leave it out"
    if "certfile" not in given and (idle := _first(("keyfile", "key_password"), given)):
        return f"{called[idle]} needs {called['certfile']} too"
    return _sasl_fault(values, called, given) if _uses_sasl(values) else None


def _sasl_fault(values: Mapping[str, Any], called: Mapping[str, str], given: set[str]) -> str | None:
    mechanism = values["sasl_mechanism"]
    if mechanism is not None and mechanism not in MECHANISMS:
        return f"{called['sasl_mechanism']} {mechanism!r}: use one of {', '.join(MECHANISMS)}"
    needed: tuple[str, ...] = ("username", "password")
    useless: tuple[str, ...] = ("token",)
    if mechanism == OAUTHBEARER or (mechanism is None and "token" in given):
        needed, useless = useless, needed
    missing = [called[field] for field in ("sasl_mechanism", *needed) if not values[field]]
    if missing:
        by = ("sasl_mechanism", mechanism) if mechanism else ("protocol", values["protocol"])
        return f"{called[by[0]]} {by[1]} needs {' and '.join(missing)} too"
    idle = _first(useless, given)
    return f"{called[idle]} has no effect with {called['sasl_mechanism']} {mechanism}: leave it out" if idle else None


def unusable_files(values: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    """Which file cannot be read or holds nothing of use; None where all can be used."""
    called = _called(values, names)
    if not _uses_tls(values):
        return None
    for field in _FILES:
        if values[field] is not None and (why := unreadable(values[field])) is not None:
            return f"{called[field]} {values[field]!r} cannot be read: {why}"
    if values["cafile"] is not None:
        try:
            ssl.create_default_context(cafile=values["cafile"])
        except (OSError, ValueError):
            return f"{called['cafile']} {values['cafile']!r} holds no certificate in PEM"
    return None if values["certfile"] is None else _bad_pair(values, called)


def unreadable(path: str | Path) -> str | None:
    """Why the file cannot be read, None where it can."""
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError as err:
        return err.strerror or type(err).__name__
    return None


def load_pair(context: ssl.SSLContext, certfile: str, keyfile: str | None, key_password: str | None) -> None:
    """Have the context show the certificate. Raises OSError, ValueError: it or its key cannot be used."""
    # Without the function OpenSSL would ask for the password of a locked key on the terminal.
    context.load_cert_chain(certfile, keyfile, lambda: key_password or "")


def _bad_pair(values: Mapping[str, Any], called: Mapping[str, str]) -> str | None:
    certfile, keyfile = values["certfile"], values["keyfile"]
    try:
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certfile, keyfile, values["key_password"])
    except (OSError, ValueError) as err:
        what = f"{called['certfile']} {certfile!r}"
        what += "" if keyfile is None else f" with {called['keyfile']} {keyfile!r}"
        return f"{what} cannot be used: {_why(err, keyfile or certfile, keyfile is None, called)}"
    return None


def _why(err: Exception, path: str, together: bool, called: Mapping[str, str]) -> str:
    text = Path(path).read_text(encoding="ascii", errors="replace")
    if "PRIVATE KEY" not in text:
        return f"there is no key in it: name its file by {called['keyfile']}" if together else "there is no key in PEM"
    if getattr(err, "reason", None) == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if "ENCRYPTED" in text:
        return f"the key is locked, and {called['key_password']} does not open it"
    return "they hold no certificate and key in PEM"


def _uses_tls(values: Mapping[str, Any]) -> bool:
    return str(values["protocol"]).endswith("SSL")


def _uses_sasl(values: Mapping[str, Any]) -> bool:
    return str(values["protocol"]).startswith("SASL_")


def _called(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    return {field: names.get(field, field) for field in values}


def _first(fields: tuple[str, ...], given: set[str]) -> str | None:
    return next((field for field in fields if field in given), None)
