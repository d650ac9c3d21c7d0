"""Attacks that bound epsilon from below."""

from discreet.audit.bounds import AuditReport, audit_scores, clopper_pearson

__all__ = ["AuditReport", "audit_scores", "clopper_pearson"]
