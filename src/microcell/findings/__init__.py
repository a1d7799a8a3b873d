"""Findings: rules that detect problems of a release and advise how to solve them."""

from microcell.findings.registry import Case, Observation, Rule, find_all, rules

__all__ = ["Case", "Observation", "Rule", "find_all", "rules"]
