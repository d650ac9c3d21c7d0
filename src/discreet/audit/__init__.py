"""Attacks that bound epsilon from below."""

from typing import TYPE_CHECKING, Any

from discreet.audit.bounds import audit_scores
from discreet.audit.rows import attack
from discreet.audit.run import audit

if TYPE_CHECKING:
    from discreet.audit.attacks import ATTACKS

__all__ = ["ATTACKS", "attack", "audit", "audit_scores"]


def __getattr__(name: str) -> Any:
    """ATTACKS needs every learner: they are imported when it is asked for."""
    if name == "ATTACKS":
        from discreet.audit.attacks import ATTACKS

        return ATTACKS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
