"""Findings: rules that look for what is wrong with a release, and say what to do about it."""

from microcell.findings.registry import Case, Found, Rule, find_all, rules

__all__ = ["Case", "Found", "Rule", "find_all", "rules"]
