"""The report on a bundle: one HTML page for the people who run the desk."""

from export.report.page import render
from export.report.subject import Stated, Subject, stated_in, subject_of
from export.report.target import written_whole

__all__ = ["Stated", "Subject", "render", "stated_in", "subject_of", "written_whole"]
