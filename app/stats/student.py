"""Student's t distribution, by its two tails. Source: Student, Biometrika 6 (1908) 1-25; computed by scipy."""


def t_quantile(level: float, df: float) -> float:
    """The value that |t| exceeds with probability `level`."""
    from scipy import special

    return -float(special.stdtrit(df, level / 2))


def t_tails(t: float, df: float) -> float:
    """The probability that |t| exceeds |`t`|: a two-sided p-value."""
    from scipy import special

    return 2 * float(special.stdtr(df, -abs(t)))
