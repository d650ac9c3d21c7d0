"""Local and shuffled trust: devices answer in private, and a server adds answers up."""

from discreet.local.report import Report
from discreet.local.server import Server

__all__ = ["Report", "Server"]
