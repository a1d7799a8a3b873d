"""Surveys whose participation is uncertain: designed before anyone answers, checked, answered, collected.

Respondents run ``checking`` and ``answering`` on devices of their own. These load neither tables nor methods, so each
file here is loaded by its own name, and this one loads nothing.
"""
