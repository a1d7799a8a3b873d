"""The measures of an audit: risk, disclosure, linkage and utility."""
