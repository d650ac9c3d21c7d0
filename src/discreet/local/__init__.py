"""Local trust: devices answer a server's questions in private, and the server adds answers up."""

from discreet.local.device import Device, Promise
from discreet.local.files import take_files
from discreet.local.questions import Question
from discreet.local.report import Report, ReportSum, report_many
from discreet.local.server import Server, local_guarantee
from discreet.local.state import PublicState

__all__ = [
    "Device",
    "Promise",
    "PublicState",
    "Question",
    "Report",
    "ReportSum",
    "Server",
    "local_guarantee",
    "report_many",
    "take_files",
]
