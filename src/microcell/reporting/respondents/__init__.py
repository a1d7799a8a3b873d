"""What respondents of a survey get: a page that finds their cell in the browser, and a form to do it on paper."""

from microcell.reporting.respondents.boxes import BoxInWords, describe_boxes
from microcell.reporting.respondents.forms import survey_form
from microcell.reporting.respondents.pages import survey_page

__all__ = ["BoxInWords", "describe_boxes", "survey_form", "survey_page"]
