"""Slow references in sixty digits for the distribution of the number of participants K."""

from decimal import Decimal, localcontext


def distribution(participation, k):
    """Return P{K = j} for j < k, updated candidate by candidate."""
    with localcontext() as context:
        context.prec, context.Emin = 60, -(10**12)
        p = [Decimal(1)] + [Decimal(0)] * (k - 1)
        for q in map(Decimal, participation):
            p = [(1 - q) * p[j] + (q * p[j - 1] if j else 0) for j in range(k)]
        return p


def binomial(n, k, probability):
    """Return P{K = j} for j < k and n candidates with the same probability."""
    with localcontext() as context:
        context.prec, context.Emin = 60, -(10**12)
        q = Decimal(probability)
        p = [(1 - q) ** n]
        for j in range(1, k):
            p.append(p[-1] * (n - j + 1) / j * q / (1 - q))
        return p


def failure(p):
    return sum(p[1:])


def unprotected(p):
    return sum(j * x for j, x in enumerate(p)) / failure(p)


def participant_failure(participation, k):
    """Return the mean of P{at most k-2 of the others take part}, leaving each one out in turn."""
    n = len(participation)
    each = [
        sum(distribution(participation[:i] + participation[i + 1 :], max(k - 1, 1)))
        for i in range(n)
    ]
    return sum(each) / n


def least_enough(participation, k, limit):
    for n in range(k, len(participation) + 1):
        if failure(distribution(participation[:n], k)) <= Decimal(limit):
            return n
    return -1
