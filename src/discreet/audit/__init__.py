"""Attacks that bound epsilon from below."""

from typing import TYPE_CHECKING, Any

from discreet.audit.attack import Attack, Claim
from discreet.audit.bounds import AuditReport, audit_scores
from discreet.audit.run import audit, audit_all

if TYPE_CHECKING:
    from discreet.audit.attacks import ATTACKS

__all__ = [
    "ATTACKS",
    "Attack",
    "AuditReport",
    "Claim",
    "audit",
    "audit_all",
    "audit_scores",
]


def __getattr__(name: str) -> Any:
    """ATTACKS needs every learner: they are imported when it is asked for."""
    if name == "ATTACKS":
        from discreet.audit.attacks import ATTACKS

        return ATTACKS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
