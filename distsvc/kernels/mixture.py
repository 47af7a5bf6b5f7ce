"""Expectation maximisation (EM) for mixtures of normals times categorical distributions.

Letters in shapes: K components, p numeric and q categorical columns, L levels of all categorical
columns together, n rows.

`fit_cells` fits normals to one column of rounded values. A cell is the interval of all numbers that
round to one value.
"""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel, unchecked
from distsvc.kernels.lanes import ROWS_AT_ONCE, add_moments, fma, squares_of_products

LOG_TWO_PI = 1.8378770664093453
"""Logarithm of 2 pi."""

LOG_TWO, LOG_TWO_REST = 0.6931471805599453, 2.3190468138462996e-17
"""Logarithm of 2 as a float64, and its rounding error."""

INVERSE_FACTORIALS = tuple(1.0 / math.factorial(i) for i in range(11, -1, -1))
"""Coefficients of the Taylor polynomial of e^r, from degree 11 to 0."""

MIN_LOG_SHARE = -120.0
"""Minimum log ratio of a component's density at a row to the highest density of any component. With
a lower ratio, the row's posterior for the component is 0."""

MIN_RELATIVE_SD = 0.05
"""Minimum standard deviation of a component, relative to the column's standard deviation."""

MIN_POSTERIOR = 1e-5
"""Rows with at most this posterior in a component are skipped in its sums, to save time."""

PRIOR_MEAN_ROWS = 0.01
"""Weight of the prior for a component's mean: it counts like this number of rows (Fraley and
Raftery 2007)."""

PRIOR_LEVEL_ROWS = 1.0
"""Weight of the prior for the probabilities of a component's levels. The prior is the shares of the
levels in the table, and counts like this number of rows."""

MIN_PROBABILITY = 1e-300
"""Minimum probability of a cell, so that logarithms are finite."""

AXES_SWEEPS = 2
"""Number of times that `maximise` updates each common axis of tied covariances."""


@inlined
def factorise(S, n, lower):
    """Set lower (n, n) to the Cholesky factor of S (n, n); `lower` may be S itself.

    Pivots that are negative by rounding are replaced by a small positive number.
    """
    for a in range(n):
        for b in range(a + 1):
            value = S[a, b]
            for c in range(b):
                value -= lower[a, c] * lower[b, c]
            if a == b:
                lower[a, a] = math.sqrt(max(value, 1e-12))
            else:
                lower[a, b] = value / lower[b, b]


@inlined
def invert_lower(S, n, lower):
    """Set lower (n, n) to the inverse Cholesky factor of S (n, n); return log det(lower)."""
    factorise(S, n, lower)
    total = 0.0
    for a in range(n):
        total -= math.log(lower[a, a])
    for b in range(n):
        lower[b, b] = 1.0 / lower[b, b]
        for a in range(b + 1, n):
            value = 0.0
            for c in range(b, a):
                value -= lower[a, c] * lower[c, b]
            lower[a, b] = value / lower[a, a]
    return total


@inlined
def solve(M, n, x):
    """Replace x (n,) by inv(M) x; M (n, n) is overwritten.

    M is symmetric and positive definite, and only its lower triangle is used.
    """
    factorise(M, n, M)
    for a in range(n):
        for c in range(a):
            x[a] -= M[a, c] * x[c]
        x[a] /= M[a, a]
    for a in range(n - 1, -1, -1):
        for c in range(a + 1, n):
            x[a] -= M[c, a] * x[c]
        x[a] /= M[a, a]


@inlined
def invert(A, n, inverse):
    """Invert A (n, n) into `inverse` (n, n), by Gauss-Jordan elimination with partial pivoting.

    It compiles in a fraction of the time of ``np.linalg.inv``.
    """
    M = A.copy()
    for a in range(n):
        for b in range(n):
            inverse[a, b] = 1.0 if a == b else 0.0
    for c in range(n):
        pivot = c
        for a in range(c + 1, n):
            pivot = a if abs(M[a, c]) > abs(M[pivot, c]) else pivot
        scale = 1.0 / M[pivot, c]
        for b in range(n):
            M[pivot, b], M[c, b] = M[c, b], M[pivot, b] * scale  # in this order, also if equal
            inverse[pivot, b], inverse[c, b] = inverse[c, b], inverse[pivot, b] * scale
        for a in range(n):
            factor = M[a, c]
            if a != c:
                for b in range(n):
                    M[a, b] -= factor * M[c, b]
                    inverse[a, b] -= factor * inverse[c, b]


@inlined
def exponential(t):
    """Return e^t for t <= 0, with a relative error below 1e-15; 0 below `MIN_LOG_SHARE`.

    The compiler can vectorise it, unlike the C library's function. With t = w log 2 + r, w a
    whole number and |r| < 0.35, the result is 2^w times the Taylor polynomial of e^r of degree 12.
    """
    x = t if t > MIN_LOG_SHARE else MIN_LOG_SHARE
    whole = np.int32(x * (1.0 / LOG_TWO) - 0.5)
    r = fma(-float(whole), LOG_TWO, x)
    r = fma(-float(whole), LOG_TWO_REST, r)
    value = 1.0 / 479001600.0
    for below in INVERSE_FACTORIALS:
        value = fma(value, r, below)
    power = np.int64((np.int64(whole) + 1023) << 52).view(np.float64)  # 2^whole
    return value * power if t >= MIN_LOG_SHARE else 0.0


@inlined
def set_factors(covariances, means, log_weights, present, factors, centres, constants):
    """Prepare the density of each component for rows with the numeric columns `present` (p,).

    `present` are indices, padded by -1. Returns their number. centres (K, p) are set to means, and
    constants (K,) to log densities at the means plus `log_weights`. factors (K, p, p) are set to
    inverse Cholesky factors, or factors[:, 0] to inverse standard deviations if covariances are
    diagonal.
    """
    (k, s, p), o = covariances.shape, 0
    while o < p and present[o] >= 0:
        o += 1
    block = np.zeros((p, p))
    for c in range(k):
        constants[c] = log_weights[c] - 0.5 * o * LOG_TWO_PI
        for a in range(o):
            centres[c, a] = means[c, present[a]]
        if s == p and p > 1:
            for a in range(o):
                for b in range(a + 1):
                    block[a, b] = covariances[c, present[a], present[b]]
            constants[c] += invert_lower(block, o, factors[c])
        else:
            for a in range(o):
                factors[c, 0, a] = 1.0 / math.sqrt(covariances[c, 0, present[a]])
                constants[c] += math.log(factors[c, 0, a])
    return o


@unchecked
def set_posteriors(
    values, places, factors, stride, centres, constants, chances, o, n, tops, totals, posteriors
):
    """Set the posteriors (K, T) of the first n of T = ROWS_AT_ONCE rows.

    values (o, T) are the rows' known numbers. With places (q, T), chances[c, places[j, t]] is the
    log probability in component c of row t's level of category j. tops (T,) and totals (T,) are set
    so that log-likelihoods are tops + log(totals). `stride` is as in `squares_of_products`.
    """
    gaps = np.empty((o, ROWS_AT_ONCE))
    for c in range(constants.shape[0]):
        logs = posteriors[c]
        squares_of_products(factors[c], stride, values, centres[c], o, gaps, logs)
        for t in range(n):
            logs[t] = constants[c] - 0.5 * logs[t]
        for j in range(places.shape[0]):
            for t in range(n):
                logs[t] += chances[c, places[j, t]]
        for t in range(n):
            tops[t] = logs[t] if c == 0 or logs[t] > tops[t] else tops[t]
    totals[:] = 0.0
    for c in range(constants.shape[0]):
        shares = posteriors[c]
        for t in range(n):
            shares[t] = exponential(shares[t] - tops[t])
        for t in range(n):
            totals[t] += shares[t]
    for c in range(constants.shape[0]):
        shares = posteriors[c]
        for t in range(n):
            shares[t] /= totals[t]


@inlined
def with_missing_levels(table, missing):
    """Return `table` (K, L) followed by the columns of `missing` (K, q).

    Column L + j of the result is for rows whose level of category j is missing.
    """
    k, n = table.shape
    wide = np.empty((k, n + missing.shape[1]))
    for c in range(k):  # an assignment of arrays would compile messages about their shapes
        for j in range(wide.shape[1]):
            wide[c, j] = table[c, j] if j < n else missing[c, j - n]
    return wide


@unchecked
def _set_best(sums, n, best, highest):
    """Set best (T,) int32 to each row's cluster with the highest sum of posteriors.

    sums (k, T) are the sums for k clusters, and only the first n of T rows are set. highest (T,)
    float32 are set to the sums of the best clusters.
    """
    for c in range(sums.shape[0]):
        own = sums[c]
        for t in range(n):
            share = np.float32(own[t])
            better = c == 0 or share > highest[t]
            best[t] = np.int32(c) if better else best[t]
            highest[t] = share if better else highest[t]


@kernel
def label_rows(
    Z, numbers, levels, order, starts, present, log_weights, means, covariances, log_chances,
    expected, first_level, n_levels, cluster, labels, shares, densities,
):  # fmt: skip
    """Set labels (n,) int32, shares (n, k) float32 and densities (n, 2) of prepared rows.

    Z (n, D) float32 are the rows. numbers (p,) and levels (q,) are the indices of its columns with
    numbers and with levels. NaN, and levels below 0 or not below n_levels (q,), are missing. Rows
    order[starts[g]:starts[g + 1]] have the same numbers missing. Component c belongs to cluster[c].
    A cluster's share is the sum of its components' posteriors. The label is the first cluster with
    the highest share. Results whose array is empty are not computed.

    densities[:, 0] are log densities of the known values. densities[:, 1] also count missing
    values, by their expected log density in each component. For missing levels, expected (K, q) are
    these log densities. Other arguments are as in `expectation`.
    """
    (k, p), q, n_clusters = means.shape, levels.shape[0], shares.shape[1]
    stride, width = p if covariances.shape[1] == p and p > 1 else 0, log_chances.shape[1]
    factors, centres = np.zeros((k, p, p)), np.zeros((k, p))
    constants, complete, lost = np.empty(k), np.empty(k), np.empty(k)
    chances = with_missing_levels(log_chances, np.zeros_like(expected))
    of_missing = with_missing_levels(np.zeros_like(log_chances), expected)
    values, places = np.zeros((p, ROWS_AT_ONCE)), np.empty((q, ROWS_AT_ONCE), np.uint32)
    tops, totals = np.empty(ROWS_AT_ONCE), np.empty(ROWS_AT_ONCE)
    posteriors, sums = np.empty((k, ROWS_AT_ONCE)), np.empty((n_clusters, ROWS_AT_ONCE))
    best, highest = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.float32)
    set_factors(covariances, means, log_weights, np.arange(p), factors, centres, complete)
    for g in range(starts.shape[0] - 1):
        o = set_factors(covariances, means, log_weights, present[g], factors, centres, constants)
        for c in range(k):  # the expected log density of the missing numbers, given the others
            lost[c] = complete[c] - constants[c] - 0.5 * (p - o)
        for start in range(starts[g], starts[g + 1], ROWS_AT_ONCE):
            rows = order[start : min(start + ROWS_AT_ONCE, starts[g + 1])]
            n_known = 0
            for t in range(rows.shape[0]):
                for a in range(o):
                    values[a, t] = Z[rows[t], numbers[present[g, a]]]
                for j in range(q):
                    level = Z[rows[t], levels[j]]
                    is_known = -0.5 < level < n_levels[j] - 0.5
                    n_known += is_known
                    place = first_level[j] + np.int64(level + 0.5) if is_known else width + j
                    places[j, t] = place
            set_posteriors(
                values, places, factors, stride, centres, constants, chances, o, rows.shape[0],
                tops, totals, posteriors,
            )  # fmt: skip
            sums[:] = 0.0
            for c in range(k):
                own, added = sums[cluster[c]], posteriors[c]
                for t in range(rows.shape[0]):
                    own[t] += added[t]
            if labels.shape[0] > 0:
                _set_best(sums, rows.shape[0], best, highest)
                for t in range(rows.shape[0]):
                    labels[rows[t]] = best[t]
            if shares.shape[0] > 0:
                for t in range(rows.shape[0]):
                    for c in range(n_clusters):
                        shares[rows[t], c] = sums[c, t]
            if densities.shape[0] == 0:
                continue
            for t in range(rows.shape[0]):
                density = tops[t] + math.log(totals[t])
                densities[rows[t], 0] = densities[rows[t], 1] = density
            if o == p and n_known == q * rows.shape[0]:
                continue
            for t in range(rows.shape[0]):
                ratio = 0.0
                for c in range(k):
                    more = lost[c]
                    for j in range(q):
                        more += of_missing[c, places[j, t]]
                    ratio += posteriors[c, t] * math.exp(more)
                densities[rows[t], 1] += math.log(ratio)


@kernel
def expectation(
    X, levels, starts, present, missing, log_weights, means, covariances, log_chances,
    first_level, given, posterior, mass, first, second, counts,
):  # fmt: skip
    """Set posterior (n, K), add posterior-weighted sums of rows, and return log-likelihoods (n,).

    Rows have numbers X (n, p) float64, NaN where missing, and levels (n, q) int32, -1 where
    missing. They are sorted by their pattern of missing numbers. Rows starts[g] to starts[g + 1]
    have the numbers with indices present[g], and lack the numbers with indices missing[g]. Both are
    padded by -1.

    Components have log_weights (K,), means (K, p) and covariances (K, p, p), or (K, 1, p) if
    diagonal. log_chances (K, L) are log probabilities of levels; category j starts at
    first_level[j]. If `given`, posterior is an input, and log-likelihoods are 0.

    Missing numbers count by their conditional means and covariances. The sums are mass (K,), first
    (K, p), counts (K, L) and second, all float64. second is (K, p, p), of which only the lower
    triangles are set, or (K, 1, p). Posteriors up to `MIN_POSTERIOR` are skipped. If mass is empty,
    there are no sums.
    """
    n, p = X.shape
    q, k = levels.shape[1], means.shape[0]
    is_full = covariances.shape[1] == p and p > 1
    sums_full = second.shape[1] == p and p > 1
    stride, n_levels = p if is_full else 0, log_chances.shape[1]
    factors, centres, constants = np.zeros((k, p, p)), np.zeros((k, p)), np.empty(k)
    chances = with_missing_levels(log_chances, np.zeros((k, q)))
    slopes, rest = np.zeros((k, p, p)), np.zeros((k, p, p))
    likelihoods = np.zeros(n)
    rows, used = np.zeros((k, p, ROWS_AT_ONCE)), np.empty((k, ROWS_AT_ONCE))
    n_used, mass_before, step = np.zeros(k, np.int64), np.empty(k), p if sums_full else 0
    values, places = np.zeros((p, ROWS_AT_ONCE)), np.empty((q, ROWS_AT_ONCE), np.uint32)
    tops, totals = np.empty(ROWS_AT_ONCE), np.empty(ROWS_AT_ONCE)
    posteriors, row = np.empty((k, ROWS_AT_ONCE)), np.empty(p)
    for g in range(starts.shape[0] - 1):
        if starts[g] == starts[g + 1]:
            continue
        o = set_factors(covariances, means, log_weights, present[g], factors, centres, constants)
        u = p - o
        for c in range(k):
            if is_full:
                for d in range(u):  # slopes = S_uo inv(S_oo); o: present, u: missing
                    for a in range(o):
                        value = 0.0
                        for b in range(a + 1):
                            value += factors[c, a, b] * covariances[c, missing[g, d], present[g, b]]
                        row[a] = value
                    for b in range(o):
                        value = 0.0
                        for a in range(b, o):
                            value += factors[c, a, b] * row[a]
                        slopes[c, d, b] = value
                for d in range(u):
                    for e in range(d + 1):
                        value = covariances[c, missing[g, d], missing[g, e]]
                        for b in range(o):
                            value -= slopes[c, d, b] * covariances[c, missing[g, e], present[g, b]]
                        rest[c, d, e] = value
            else:
                for d in range(u):  # other entries, and slopes, stay 0
                    rest[c, d, d] = covariances[c, 0, missing[g, d]]
        for c in range(mass.shape[0]):
            mass_before[c] = mass[c]
        for start in range(starts[g], starts[g + 1], ROWS_AT_ONCE):
            n_rows = min(ROWS_AT_ONCE, starts[g + 1] - start)
            if not given:
                for t in range(n_rows):
                    for a in range(o):
                        values[a, t] = X[start + t, present[g, a]]
                    for j in range(q):
                        level = levels[start + t, j]
                        places[j, t] = first_level[j] + level if level >= 0 else n_levels + j
                set_posteriors(
                    values, places, factors, stride, centres, constants, chances, o, n_rows,
                    tops, totals, posteriors,
                )  # fmt: skip
                for t in range(n_rows):
                    likelihoods[start + t] = tops[t] + math.log(totals[t])
                    for c in range(k):
                        posterior[start + t, c] = posteriors[c, t]
            if mass.shape[0] == 0:
                continue
            for c in range(k):
                # Collect the rows that count for the component; add them when a block is full.
                for i in range(start, start + n_rows):
                    r, t = posterior[i, c], n_used[c]
                    if r <= MIN_POSTERIOR:
                        continue
                    used[c, t] = r
                    mass[c] += r
                    for a in range(o):
                        rows[c, present[g, a], t] = X[i, present[g, a]]
                    for d in range(u):
                        value = means[c, missing[g, d]]
                        for b in range(o if is_full else 0):
                            gap = X[i, present[g, b]] - means[c, present[g, b]]
                            value += slopes[c, d, b] * gap
                        rows[c, missing[g, d], t] = value
                    for j in range(q):
                        if levels[i, j] >= 0:
                            counts[c, first_level[j] + levels[i, j]] += r
                    n_used[c] = (t + 1) % ROWS_AT_ONCE
                    if n_used[c] == 0:
                        add_moments(used[c], rows[c], p, step, first[c], second[c])
        for c in range(mass.shape[0]):  # the conditional covariances of the missing numbers
            for d in range(u):
                a = missing[g, d]
                for e in range(d + 1) if sums_full else range(d, d + 1):
                    b = missing[g, e]
                    value = (mass[c] - mass_before[c]) * rest[c, d, e]
                    second[c, max(a, b) if sums_full else 0, min(a, b)] += value
    for c in range(mass.shape[0]):
        if n_used[c] > 0:
            for t in range(n_used[c], ROWS_AT_ONCE):
                used[c, t] = 0.0
            add_moments(used[c], rows[c], p, step, first[c], second[c])
    return likelihoods


@inlined
def tie_axes(scatter, mass, prior, share, freedom, axes, sweeps, variances):
    """Fit common axes of covariances inv(A) D_k inv(A).T in place (Gales 1999, semi-tied).

    scatter (K, p, p) and mass (K,) are the components' scatter matrices and masses. axes (p, p) is
    the initial A, and is replaced by the fitted A. In it, a' prior a = 1 for every row a.
    variances (K, p) are set to the diagonals of D_k. They are computed with `share` times prior
    (p, p) added to each scatter matrix, and `freedom` added to each mass.
    """
    k, p = mass.shape[0], axes.shape[0]
    G, cofactor, row = np.empty((p, p)), np.empty(p), np.empty(p)
    inverse, whole = np.empty((p, p)), mass.sum()
    for sweep in range(sweeps + 1):
        for j in range(p):
            length = 0.0
            for a in range(p):
                for b in range(p):
                    length += axes[j, a] * prior[a, b] * axes[j, b]
            if sweep == sweeps:
                for a in range(p):
                    axes[j, a] /= math.sqrt(length)
                length = 1.0
            for c in range(k):
                value = share * length
                for a in range(p):
                    for b in range(p):
                        value += axes[j, a] * scatter[c, a, b] * axes[j, b]
                variances[c, j] = max(value, 1e-12) / (mass[c] + freedom)
        if sweep == sweeps:
            break
        invert(axes, p, inverse)
        for j in range(p):  # row j of A given the others, in closed form
            for a in range(p):
                cofactor[a] = inverse[a, j]
                row[a] = cofactor[a]
                for b in range(a + 1):
                    G[a, b] = 1e-9 if a == b else 0.0
            for c in range(k):
                weight = 1.0 / variances[c, j]
                for a in range(p):
                    for b in range(a + 1):
                        G[a, b] += weight * scatter[c, a, b]
            solve(G, p, row)
            scale = 0.0
            for a in range(p):
                scale += cofactor[a] * row[a]
            scale = math.sqrt(whole / scale)
            dot = 0.0
            for a in range(p):
                row[a] = row[a] * scale - axes[j, a]
                dot += row[a] * inverse[a, j]
            for a in range(p):  # Sherman and Morrison: row j of A has changed
                cofactor[a] = inverse[a, j]
            for b in range(p):
                value = 0.0
                for a in range(p):
                    value += row[a] * inverse[a, b]
                for a in range(p):
                    G[a, b] = cofactor[a] * value / (1.0 + dot)
            for a in range(p):
                axes[j, a] += row[a]
                for b in range(p):
                    inverse[a, b] -= G[a, b]


@kernel
def maximise(
    mass, first, second, counts, n_levels, prior, prior_shares, is_tied, axes, weights, means,
    covariances, chances,
):  # fmt: skip
    """Set a mixture's parameters to their posterior mode, given the sums of `expectation`.

    `second` and the covariances are (K, p, p) if they are full or tied, and (K, 1, p) if diagonal.
    prior (p, p) is the prior's scatter, and prior_shares (L,) are its probabilities of levels. If
    covariances are tied, axes (p, p) are updated. MIN_RELATIVE_SD**2 times prior[a, a] is added to
    the variances of numeric column a, as the variance of a measurement error.
    """
    k, p = first.shape
    is_full = second.shape[1] == p and p > 1
    scatter, variances = np.zeros((k, p if is_full else 0, p)), np.empty((k, p))
    rows, average = np.empty(k), np.empty(p)
    share = 1.0 / k ** (2.0 / p) if is_full and not is_tied else 1.0 / k**2
    for c in range(k):
        rows[c] = mass[c] + 1e-9
        shrink = PRIOR_MEAN_ROWS * rows[c] / (PRIOR_MEAN_ROWS + rows[c]) - rows[c]
        for a in range(p):
            average[a] = first[c, a] / rows[c]
            means[c, a] = first[c, a] / (rows[c] + PRIOR_MEAN_ROWS)
        for a in range(p):
            if not is_full:
                value = share * prior[a, a] + second[c, 0, a] + shrink * average[a] ** 2
                covariances[c, 0, a] = value / (rows[c] + 6.0) + MIN_RELATIVE_SD**2 * prior[a, a]
                continue
            for b in range(a + 1):
                value = second[c, a, b] + shrink * average[a] * average[b]
                scatter[c, a, b] = scatter[c, b, a] = value
                if not is_tied:
                    value = (share * prior[a, b] + value) / (rows[c] + 2 * p + 4)
                    covariances[c, a, b] = covariances[c, b, a] = value
            if not is_tied:
                covariances[c, a, a] += MIN_RELATIVE_SD**2 * prior[a, a]
    if is_tied:
        tie_axes(scatter, rows, prior, share, 6.0, axes, AXES_SWEEPS, variances)
        back = np.empty((p, p))
        invert(axes, p, back)
        for c in range(k):
            for a in range(p):
                for b in range(a + 1):
                    value = MIN_RELATIVE_SD**2 * prior[a, a] if a == b else 0.0
                    for j in range(p):
                        value += back[a, j] * variances[c, j] * back[b, j]
                    covariances[c, a, b] = covariances[c, b, a] = value
    whole = rows.sum()
    for c in range(k):
        weights[c] = rows[c] / whole
        place = 0
        for n in n_levels:
            known = PRIOR_LEVEL_ROWS
            for level in range(place, place + n):
                known += counts[c, level]
            for level in range(place, place + n):
                prior_rows = PRIOR_LEVEL_ROWS * prior_shares[level]
                chances[c, level] = (counts[c, level] + prior_rows) / known
            place += n


@kernel
def expectation_maximisation(
    X, levels, starts, present, missing, first_level, n_levels, prior, prior_shares, mass_before,
    first_before, second_before, counts_before, is_tied, axes, weights, means, covariances, chances,
    max_steps, gain,
):  # fmt: skip
    """Improve a mixture's parameters in place, and return the log-likelihood of the rows.

    Arguments are as in `expectation` and `maximise`. Sums over earlier rows, `mass_before` to
    `counts_before`, are added to the sums over these rows. EM ends after `max_steps`, or if a step
    adds less than `gain` to the log-likelihood.
    """
    k, p = means.shape
    sums_rows = 1 if covariances.shape[1] != p or p < 2 else p
    mass, first, counts = np.empty(k), np.empty((k, p)), np.empty((k, chances.shape[1]))
    second, posterior = np.empty((k, sums_rows, p)), np.empty((X.shape[0], k))
    old = -np.inf
    is_given = max_steps < 0  # False; a literal has another type and recompiles
    for step in range(max_steps + 1):
        is_last = step == max_steps
        for c in range(k):  # assigning arrays would compile shape checks
            mass[c] = mass_before[c]
            for a in range(p):
                first[c, a] = first_before[c, a]
                for b in range(sums_rows):
                    second[c, b, a] = second_before[c, b, a]
            for level in range(counts.shape[1]):
                counts[c, level] = counts_before[c, level]
        found = expectation(
            X, levels, starts, present, missing, np.log(weights), means, covariances,
            np.log(chances), first_level, is_given, posterior, mass[:0] if is_last else mass, first,
            second, counts,
        )  # fmt: skip
        likelihood = found.sum()
        if is_last or likelihood - old < gain:
            break
        old = likelihood
        maximise(
            mass, first, second, counts, n_levels, prior, prior_shares, is_tied, axes, weights,
            means, covariances, chances,
        )  # fmt: skip
    return likelihood


@inlined
def normal_cdf(z):
    """Return the standard normal distribution function at z."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@kernel
def fit_cells(edges, counts, weights, means, sds, least_sd, max_steps, tolerance):
    """Fit k normals to the counts of cells by expectation maximisation; return the log-likelihood.

    edges (m + 1,) float64 are the ascending borders of m cells, from -inf to inf; counts (m,) are
    float64. weights, means and sds (k,) float64 are the start, and are set to the fit. A standard
    deviation is at least `least_sd`, and at least the width of the mean's cell, if finite.
    Iterations end when the log-likelihood gains less than `tolerance`.
    """
    m, k = counts.shape[0], means.shape[0]
    # Probability, and mean and mean square of the standardised value, of each normal in each cell.
    chance = np.empty((m, k))
    shift, spread = np.empty((m, k)), np.empty((m, k))
    old = -np.inf
    likelihood = -np.inf
    for _ in range(max_steps):
        for j in range(k):
            z_low = -np.inf
            cdf_low, pdf_low, zpdf_low = 0.0, 0.0, 0.0
            for i in range(m):
                edge = edges[i + 1]
                if edge == np.inf:
                    z, cdf, pdf, zpdf = np.inf, 1.0, 0.0, 0.0
                else:
                    z = (edge - means[j]) / sds[j]
                    cdf = normal_cdf(z)
                    pdf = 0.3989422804014327 * math.exp(-0.5 * z * z) if abs(z) < 38.0 else 0.0
                    zpdf = z * pdf
                inside = cdf - cdf_low
                if z_low > 0.0:  # 1 - cdf would cancel digits
                    upper = 0.0 if z == np.inf else normal_cdf(-z)
                    inside = normal_cdf(-z_low) - upper
                inside = max(inside, MIN_PROBABILITY)
                first = min(max((pdf_low - pdf) / inside, -40.0), 40.0)
                chance[i, j] = inside
                shift[i, j] = first
                spread[i, j] = max(1.0 + (zpdf_low - zpdf) / inside, first * first)
                z_low, cdf_low, pdf_low, zpdf_low = z, cdf, pdf, zpdf
        likelihood = 0.0
        for i in range(m):
            total = 0.0
            for j in range(k):
                total += weights[j] * chance[i, j]
            total = max(total, MIN_PROBABILITY)
            likelihood += counts[i] * math.log(total)
            for j in range(k):
                chance[i, j] = counts[i] * weights[j] * chance[i, j] / total
        if likelihood - old < tolerance:
            break
        old = likelihood
        whole = counts.sum()
        for j in range(k):
            mass, first, second = 1e-9, 0.0, 0.0
            for i in range(m):
                mass += chance[i, j]
                first += chance[i, j] * shift[i, j]
                second += chance[i, j] * spread[i, j]
            first /= mass
            mean = means[j] + sds[j] * first
            sd = sds[j] * math.sqrt(max(second / mass - first * first, 1e-6))
            place = 0  # compiling np.searchsorted takes longer
            while place < len(edges) and edges[place] < mean:
                place += 1
            width = 0.0
            if 1 < place < m:
                width = edges[place] - edges[place - 1]
            weights[j] = mass / whole
            means[j] = mean
            sds[j] = max(sd, max(width, least_sd))
    return likelihood
