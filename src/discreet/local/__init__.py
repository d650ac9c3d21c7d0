"""Local and shuffled trust: devices answer in private, and a server adds answers up."""

from discreet.local.device import Device, Promise
from discreet.local.files import take_files
from discreet.local.questions import Question
from discreet.local.report import Answers, BatchSum, Report, ReportSum, report_many, shuffled
from discreet.local.server import Server, local_guarantee
from discreet.local.state import PublicState

__all__ = [
    "Answers",
    "BatchSum",
    "Device",
    "Promise",
    "PublicState",
    "Question",
    "Report",
    "ReportSum",
    "Server",
    "local_guarantee",
    "report_many",
    "shuffled",
    "take_files",
]
