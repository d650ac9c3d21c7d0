"""Sealed reports: what a relay carries and cannot read.

A report is sealed on the device to a public key of the decision server, by HPKE (RFC 9180) in its
base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. `cryptography` has it, and browsers
have had these primitives for ten years (X25519 only for two), so that neither side needs another
library. Reports are padded with spaces to one length, and bound to the bandit and to the policy
that they answer: moved to another one, they do not open.
"""

import hashlib
import math
from functools import lru_cache
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.local.state import PublicState
from discreet.privacy.channels import RESPONSE
from discreet.service.schema import says

SUITE = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
KEY_BYTES = 32  # of a private key
OVERHEAD = 65 + 16  # bytes that sealing adds: a point of the curve, and a tag
STEP = 64  # sizes of reports are multiples of it


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What everybody must be told alike: server and relay publish the same, and devices compare."""

    bandit: Annotated[str, says("its name")]
    policy: Annotated[str, says("which policy the reports of a batch answer: epoch-version")]
    digest: Annotated[str, says("SHA-256 of that policy's document, in hexadecimal")]
    key: Annotated[
        str,
        says("the public key that reports are sealed to: a point of P-256, in hexadecimal"),
    ]
    size: Annotated[int, says("bytes of a report, padded, before it is sealed")]
    batch: Annotated[int, says("reports of a full batch")]
    minimum: Annotated[int, says("reports below which a batch is dropped, unread")]
    epsilon: Annotated[
        float,
        says("of one report, by itself: what holds even if relay and server are one"),
    ]

    @property
    def info(self) -> bytes:
        """What a sealed report is bound to."""
        return f"discreet report\n{self.bandit}\n{self.policy}\n{self.digest}".encode()

    @property
    def sealed_size(self) -> int:
        return self.size + OVERHEAD


def digest(document: bytes) -> str:
    """Of a policy's document, byte by byte as it is served."""
    return hashlib.sha256(document).hexdigest()


def longest_report(state: PublicState, tag: str) -> int:
    """Bytes of the longest report that a policy can lead to, whatever the record is."""
    lengths = []
    for question in state.questions:
        values = [-RESPONSE] * math.prod(question.shape(state.dim))
        report = {"id": "0" * 32, "policy": tag, "question": question.name, "values": values}
        lengths.append(len(msgspec.json.encode(report)))
    return max(lengths)


def new_secret() -> bytes:
    """The private half of a new key."""
    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return number.to_bytes(KEY_BYTES, "big")


@lru_cache(maxsize=1)
def _private(secret: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())


def public_key(secret: bytes) -> str:
    """The public half, as terms state it."""
    point = _private(secret).public_key()
    return point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint).hex()


def seal(terms: Terms, report: bytes) -> bytes:
    """What a device sends through a relay; ValueError if the report is longer than the terms say.

    >>> secret = bytes(31) + b"1"
    >>> terms = Terms("ads", "e-1", digest(b"{}"), public_key(secret), 64, 100, 50, 1.0)
    >>> len(seal(terms, b"{}")) == terms.sealed_size
    True
    >>> opened(terms, secret, seal(terms, b"{}")).rstrip()
    b'{}'
    """
    if len(report) > terms.size:
        raise ValueError("the report is longer than the terms allow; nothing was sent")
    return SUITE.encrypt(report.ljust(terms.size), _point(terms.key), info=terms.info)


def opened(terms: Terms, secret: bytes, sealed: bytes) -> bytes | None:
    """What was sealed; None for anything else, whatever it is."""
    try:
        return SUITE.decrypt(sealed, _private(secret), info=terms.info)
    except InvalidTag:
        return None


@lru_cache(maxsize=16)
def _point(key: str) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(key))
