"""The density of one column, given the columns before it, among rows of one population.

A numeric column is regressed on the earlier numeric columns, on their products and on hinges. A
hinge is max(x - knot, 0) for an earlier column x. Terms are added while the BIC improves (Friedman
1991). The BIC also chooses the variance and the shape of the residuals. A rounded column is
modelled by an ordered probit, whose cells are the intervals that round to one value. A categorical
column is modelled by a logistic regression on the columns that a score test chooses.
"""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, total
from distsvc.kernels.mixture import LOG_TWO_PI, MIN_RELATIVE_SD, PRIOR_MEAN_ROWS, solve
from distsvc.kernels.rbf import lowest_places

TAILS = (3.0, 5.0, 8.0, 14.0)
"""Degrees of freedom that are tried in Student's t for residuals."""

MAX_TERMS = 60
"""Maximum number of products and hinges that are tried for a numeric column. If there are more, the
terms most correlated with the column are tried. Also the maximum number of slopes in the model of a
categorical column."""

MODES = tuple(np.linspace(0.25, 0.75, 11).tolist())
"""Quantiles of residuals that are tried as the mode of a two-piece normal. A mode at a quantile
near 0 or 1 would fit half of a cluster."""

MAX_VARIANCE_TERMS = 6
"""Maximum number of terms on which the log variance of a numeric column depends."""

SIGNAL_SHARE = 0.5
"""Share of a variance above which signal outweighs noise.

The variance of residuals includes an assumed error, `MIN_RELATIVE_SD` squared; the rest is signal.
Residuals can have a shape other than the normal only if signal has more than this share of their
variance.
"""

NEWTON_STEPS = 8
"""Maximum number of steps in the fit of a log variance or an ordered probit. EM for the scale of
Student's t takes this number of steps, too. In a logistic regression, it is the maximum number of
lengths that are tried for a Newton step."""

SIGNAL_BINS = 32
"""Number of values to which predictions are rounded in the fit of an ordered probit."""

SQRT_TWO = math.sqrt(2.0)

NORMAL, STUDENT, TWO_PIECE = 0, 1, 2
"""Shapes of residuals; each value is also the number of the shape's parameters."""


@inlined
def copy(x, out):
    """Set out (m,) to x (m,), without the compiled check of shapes that ``out[:] = x`` has."""
    for i in range(out.shape[0]):
        out[i] = x[i]


@inlined
def fill_term(V, knots, place, term, out):
    """Set out (n,) to one regressor for V[place], made from earlier columns V[i], i < place.

    V (p, n) has a row for each column of the table. `term` is the regressor's number. The first
    numbers are the earlier columns. The next are products of two different earlier columns. The
    last are hinges max(V[i] - knot, 0) at the knots[i] of knots (p, K).
    """
    n_products, n_knots = place * (place - 1) // 2, knots.shape[1]
    if term < place:
        copy(V[term], out)
    elif term < place + n_products:
        rest, a = term - place, 1
        while a * (a + 1) // 2 <= rest:
            a += 1
        first, second = V[a], V[rest - a * (a - 1) // 2]
        for i in range(out.shape[0]):
            out[i] = first[i] * second[i]
    else:
        rest = term - place - n_products
        bent, knot = V[rest // n_knots], knots[rest // n_knots, rest % n_knots]
        for i in range(out.shape[0]):
            out[i] = max(bent[i] - knot, 0.0)


@inlined
def centre(x):
    """Subtract the mean from x (m,) in place; return the mean."""
    mean = total(x) / x.shape[0]
    for i in range(x.shape[0]):
        x[i] -= mean
    return mean


@inlined
def candidate_terms(V, knots, place, target):
    """Return the regressors (s,) int64 that are tried for the centred `target` (m,), ascending.

    They are numbered as in `fill_term`. All earlier columns are tried. At most `MAX_TERMS` products
    and hinges are tried: the ones with the highest correlation with `target`.
    """
    more = place * (place - 1) // 2 + place * knots.shape[1]
    if more <= MAX_TERMS:
        return np.arange(place + more)
    column, negated = np.empty(target.shape[0]), np.empty(more)
    for k in range(more):
        fill_term(V, knots, place, place + k, column)
        centre(column)
        negated[k] = -abs(dot(column, target)) / (math.sqrt(dot(column, column)) + 1e-12)
    is_chosen = np.zeros(more, np.bool_)
    for k in lowest_places(negated, MAX_TERMS):
        is_chosen[k] = True
    terms, s = np.arange(place + MAX_TERMS), place
    for k in range(more):
        if is_chosen[k]:
            terms[s] = place + k
            s += 1
    return terms


@inlined
def regress(F, r, n_linear, log_n, chosen, coefficients):
    """Regress r (m,) on some of the terms F (s, m), all centred; r becomes the residuals.

    Terms are added one by one while the BIC improves, each at a cost of `log_n`. The first n_linear
    terms are tried before the others. Each added term is made orthogonal to the terms before it
    (Gram-Schmidt). The indices of the added terms are written to chosen (s,), and their
    coefficients to coefficients (s,). Returns the number of added terms.
    """
    s, m = F.shape
    # Squared lengths of the terms orthogonal to the chosen terms, and their products with r.
    first_norms, norms, along = np.empty(s), np.empty(s), np.empty(s)
    for k in range(s):
        norms[k], along[k] = dot(F[k], F[k]), dot(F[k], r)
        first_norms[k] = norms[k]
    projections, loads, Q = np.empty((s, s)), np.empty(s), np.empty((s, m))
    steps, stop = 0, n_linear
    while steps < s:
        best, best_gain = -1, 0.0
        for k in range(stop):
            if norms[k] > 1e-4 * first_norms[k] + 1e-9:  # not a combination of chosen terms
                gain = along[k] ** 2 / norms[k]
                if best < 0 or gain > best_gain:
                    best, best_gain = k, gain
        rss = dot(r, r)
        if best < 0 or rss <= 1e-9 or -m * math.log1p(-min(best_gain / rss, 1.0 - 1e-9)) <= log_n:
            if stop == s:
                break
            stop = s
            continue
        q = Q[steps]
        copy(F[best], q)
        for j in range(steps):
            for i in range(m):
                q[i] -= projections[j, best] * Q[j, i]
        length = math.sqrt(dot(q, q))
        for i in range(m):
            q[i] /= length
        loads[steps] = dot(q, r)
        for i in range(m):
            r[i] -= q[i] * loads[steps]
        for k in range(s):
            step = dot(q, F[k])
            projections[steps, k] = step
            norms[k] -= step * step
            along[k] -= loads[steps] * step
        projections[steps, best], norms[best] = length, 0.0
        chosen[steps] = best
        steps += 1
    for j in range(steps - 1, -1, -1):  # solve the triangular system
        value = loads[j]
        for later in range(j + 1, steps):
            value -= projections[j, chosen[later]] * coefficients[later]
        coefficients[j] = value / projections[j, chosen[j]]
    return steps


@inlined
def fit_log_variance(S, squares, log_variance):
    """Return coefficients (f,) of the log variance on terms S (f, m), the first of which is 1.

    They maximise the likelihood of normal residuals with `squares` (m,), by Newton's method. The
    start is the constant `log_variance`.
    """
    f, m = S.shape
    g, step, curve, w = np.zeros(f), np.empty(f), np.empty((f, f)), np.empty(m)
    g[0] = log_variance
    for _ in range(NEWTON_STEPS):
        for i in range(m):
            value = 0.0
            for a in range(f):
                value += g[a] * S[a, i]
            w[i] = squares[i] * math.exp(-value)
        for a in range(f):
            step[a] = 0.0
            for i in range(m):
                step[a] += S[a, i] * (w[i] - 1.0)
            for b in range(a + 1):
                value = 1e-3 if a == b else 0.0
                for i in range(m):
                    value += S[a, i] * S[b, i] * min(w[i], 50.0)
                curve[a, b] = value
        solve(curve, f, step)
        for a in range(f):
            g[a] += min(max(step[a], -1.0), 1.0)
    return g


@inlined
def log_shape(z, kind, a, b, c, constant):
    """Return the log density of a standardised residual z.

    The other arguments describe the shape of the density, and are the results of `fit_shape`.
    """
    if kind == STUDENT:
        return constant - 0.5 * (a + 1.0) * math.log1p(z * z / (a * b))
    side = z if kind == NORMAL else (z - a) / (b if z < a else c)
    return constant - 0.5 * side * side


@inlined
def sum_of_logs(x):
    """Return the sum of the logarithms of x (m,), x >= 1, with few calls of the logarithm."""
    value, product = 0.0, 1.0
    for i in range(x.shape[0]):
        product *= x[i]
        if product > 1e150:
            value += math.log(product)
            product = 1.0
    return value + math.log(product)


@inlined
def quantile(z, share):
    """Return the quantile of z (m,) at a `share` of 0.25 to 0.75, by bisection from -2 to 2.

    The mean square of z is 1, so its quartiles lie in that range (Cantelli's inequality).
    """
    low, high = -2.0, 2.0
    while high - low > 1e-6:
        middle, below = 0.5 * (low + high), 0
        for i in range(z.shape[0]):
            below += z[i] < middle
        if below < share * z.shape[0]:
            low = middle
        else:
            high = middle
    return low


@inlined
def fit_shape(z, log_n):
    """Return the shape of residuals z (m,) with the best BIC: (kind, a, b, c, constant).

    The mean square of z is 1. Kinds are the standard normal, Student's t and the two-piece normal
    (John 1982). Student's t has a degrees of freedom and the squared scale b. The two-piece normal
    has the mode a and the standard deviations b below and c above it. `constant` is added to the
    log density.
    """
    m = z.shape[0]
    constant = -0.5 * LOG_TWO_PI
    best, best_bic = (NORMAL, 0.0, 0.0, 0.0, constant), m * (constant - 0.5)
    squares, x = np.empty(m), np.empty(m)
    for i in range(m):
        squares[i] = z[i] * z[i]
    for a in TAILS:
        b = 1.0 - 2.0 / a  # the variance is 1
        for _ in range(NEWTON_STEPS):  # EM of the squared scale
            for i in range(m):
                x[i] = squares[i] / (a + squares[i] / b)
            b = (a + 1.0) * total(x) / m
        for i in range(m):
            x[i] = 1.0 + squares[i] / (a * b)
        constant = math.lgamma((a + 1.0) / 2.0) - math.lgamma(a / 2.0)
        constant -= 0.5 * math.log(a * math.pi * b)
        bic = m * constant - 0.5 * (a + 1.0) * sum_of_logs(x) - 0.5 * log_n
        if bic > best_bic:
            best, best_bic = (STUDENT, a, b, 0.0, constant), bic
    for share in MODES:
        mode, down, up = quantile(z, share), 0.0, 0.0
        for i in range(m):
            below, above = min(z[i] - mode, 0.0), max(z[i] - mode, 0.0)
            down += below * below
            up += above * above
        if min(down, up) > 0.0:  # maximum likelihood for this mode
            both = np.cbrt(down) + np.cbrt(up)
            spread = math.sqrt(both / m)
            constant = math.log(2.0 / (both * spread)) - 0.5 * LOG_TWO_PI
            bic = m * (constant - 0.5) - log_n
            if bic > best_bic:
                best = TWO_PIECE, mode, np.cbrt(down) * spread, np.cbrt(up) * spread, constant
                best_bic = bic
    return best


@kernel
def describe_number(V, knots, place, y, own, log_n, densities, only_signal):
    """Set densities (n,) to the log densities of a column y (n,); return the parameter count.

    y is regressed on terms (`fill_term`) of the columns V[:place], V (p, n) float64. The fit uses
    the rows with indices own (m,), and the densities are of all rows. log_n is the logarithm of the
    number of rows for the BIC.

    If `only_signal` is True, `densities` are set to the predictions of the regression, minus the
    mean prediction. The result is then the number of terms in the regression.
    """
    n, m = y.shape[0], own.shape[0]
    if m < 2 and not only_signal:  # a normal density with a variance of 1
        mean = y[own[0]] if m else 0.0
        for i in range(n):
            densities[i] = -0.5 * (LOG_TWO_PI + (y[i] - mean) ** 2)
        return 2
    # The mean: a regression on the chosen terms, with the residuals `rest` of all rows.
    r, W = np.empty(m), np.empty((place, m))
    for i in range(m):
        r[i] = y[own[i]]
        for a in range(place):
            W[a, i] = V[a, own[i]]
    mean = centre(r)
    terms = candidate_terms(W, knots, place, r)
    s = terms.shape[0]
    F, means = np.empty((s, m)), np.empty(s)
    for k in range(s):
        fill_term(W, knots, place, terms[k], F[k])
        means[k] = centre(F[k])
    chosen, coefficients = np.empty(s, np.int64), np.empty(s)
    steps = regress(F, r, place, log_n, chosen, coefficients)
    column, rest = np.empty(n), y - mean
    for j in range(steps):
        fill_term(V, knots, place, terms[chosen[j]], column)
        for i in range(n):
            rest[i] -= coefficients[j] * (column[i] - means[chosen[j]])
    if only_signal:
        for i in range(n):
            densities[i] = y[i] - mean - rest[i]
        return steps
    squares = np.empty(m)
    for i in range(m):
        r[i] = rest[own[i]]
        squares[i] = r[i] * r[i] + MIN_RELATIVE_SD**2  # as if measured with this error
    variance = total(squares) / m
    # The log variance: constant, or linear in the terms that the squared residuals depend on.
    parameters, log_variance = 2 + steps, np.full(n, math.log(variance))
    if 0 < s < m:
        spreads, scores, excess = np.empty(s), np.empty(s), np.empty(m)
        for i in range(m):
            excess[i] = squares[i] / variance - 1.0
        for k in range(s):
            spreads[k] = math.sqrt(dot(F[k], F[k]) / m) + 1e-9
            scores[k] = -0.5 * (dot(excess, F[k]) / spreads[k]) ** 2 / m
        picked, f = lowest_places(scores, MAX_VARIANCE_TERMS), 0
        while f < picked.shape[0] and scores[picked[f]] < -log_n:
            f += 1
        if f > 0:
            S, lows, highs = np.ones((f + 1, m)), np.zeros(f), np.zeros(f)
            for j in range(f):
                k = picked[j]
                for i in range(m):
                    S[j + 1, i] = F[k, i] / spreads[k]
                    lows[j], highs[j] = min(lows[j], S[j + 1, i]), max(highs[j], S[j + 1, i])
            g = fit_log_variance(S, squares, math.log(variance))
            new = np.full(n, g[0])
            for j in range(f):
                k = picked[j]
                fill_term(V, knots, place, terms[k], column)
                for i in range(n):
                    x = (column[i] - means[k]) / spreads[k]  # clipped to the range of own rows
                    new[i] += g[j + 1] * min(max(x, lows[j]), highs[j])
            gained = 0.0
            for i in range(m):
                old_log, new_log = log_variance[own[i]], new[own[i]]
                gained += 0.5 * squares[i] * (math.exp(-old_log) - math.exp(-new_log))
                gained += 0.5 * (old_log - new_log)
            if gained > 0.5 * f * log_n:
                log_variance, parameters = new, parameters + f
    # The shape of the residuals in units of their standard deviations.
    for i in range(m):
        r[i] *= math.exp(-0.5 * log_variance[own[i]])
    kind, u, v, w, constant = NORMAL, 0.0, 0.0, 0.0, -0.5 * LOG_TWO_PI
    share = dot(r, r) / m
    if share > SIGNAL_SHARE:
        for i in range(m):
            r[i] /= math.sqrt(share)
        kind, u, v, w, constant = fit_shape(r, log_n)
    known, narrow = log_variance[0], math.exp(-0.5 * log_variance[0])
    for i in range(n):
        if log_variance[i] != known:  # usually all are equal
            known, narrow = log_variance[i], math.exp(-0.5 * log_variance[i])
        densities[i] = log_shape(rest[i] * narrow, kind, u, v, w, constant) - 0.5 * known
    return parameters + kind


@inlined
def chance_between(low, high):
    """Return the probability that a standard normal variable is between low and high."""
    if low > 0.0:
        low, high = -high, -low
    chance = 0.5 * (math.erfc(-high / SQRT_TWO) - math.erfc(-low / SQRT_TWO))
    return max(chance, 1e-300)


@inlined
def ordered_probit(counts, x, thresholds):
    """Return the parameters (k + u,) of an ordered probit with the highest likelihood.

    counts (k, b, u + 1) are the numbers of rows in k clusters, b groups and u + 1 cells. The latent
    variable of a row is normal with variance 1. Its mean is slope x[group] + mean[cluster], with x
    (b,) given, and 0 as the mean of the first cluster. Cells are the intervals between u ascending
    thresholds. The parameters are the slope, the other k - 1 means, and the thresholds, for which
    `thresholds` (u,) is the start.

    The log-likelihood is concave (Pratt 1981). Steps are by Fisher scoring, at most 1 long.
    """
    k, b, u = counts.shape[0], counts.shape[1], thresholds.shape[0]
    f = k + u
    g, step, information = np.zeros(f), np.empty(f), np.empty((f, f))
    copy(thresholds, g[k:])
    at, slope = np.empty(4, np.int64), np.empty(4)  # parameters of a cell's probability
    for _ in range(NEWTON_STEPS):
        for i in range(f):
            step[i] = 0.0
            for j in range(f):
                information[i, j] = 1e-3 if i == j else 0.0
        for cluster in range(k):
            for place in range(b):
                rows = total(counts[cluster, place])
                if rows == 0.0:
                    continue
                mean = g[0] * x[place] + (g[cluster] if cluster else 0.0)
                for c in range(u + 1):
                    down = g[k + c - 1] - mean if c else -np.inf
                    up = g[k + c] - mean if c < u else np.inf
                    chance = max(chance_between(down, up), 1e-12)
                    at_down = math.exp(-0.5 * (down * down + LOG_TWO_PI)) if c else 0.0
                    at_up = math.exp(-0.5 * (up * up + LOG_TWO_PI)) if c < u else 0.0
                    at[0], slope[0] = 0, (at_down - at_up) * x[place]
                    at[1], slope[1] = cluster, at_down - at_up if cluster else 0.0
                    at[2], slope[2] = max(k + c - 1, k), -at_down
                    at[3], slope[3] = min(k + c, f - 1), at_up
                    for i in range(4):
                        step[at[i]] += counts[cluster, place, c] * slope[i] / chance
                        for j in range(4):
                            information[at[i], at[j]] += rows * slope[i] * slope[j] / chance
        solve(information, f, step)
        length, share = 0.0, 1.0
        for i in range(f):
            length = max(length, abs(step[i]))
        if length > 1.0:
            share = 1.0 / length
        for i in range(k, f - 1):  # thresholds stay in order
            shrinks = step[i] - step[i + 1]
            if shrinks > 0.0:
                share = min(share, 0.9 * (g[i + 1] - g[i]) / shrinks)
        for i in range(f):
            g[i] += share * step[i]
        if length < 1e-6:
            break
    return g


@kernel
def describe_cells(signal, cells, own, k, thresholds, log_chances):
    """Set log_chances (k n,) to the log probabilities of the rows' `cells` (n,) in k clusters.

    Entry c n + i of `log_chances` and of signal (k n,) is for row i in cluster c. The signal is a
    prediction of the row's value from other columns, by `describe_number` with `only_signal`. An
    ordered probit (McKelvey and Zavoina 1975) is fitted to the entries with indices own (m,). The
    mean of its latent variable is the cluster's mean plus the fitted slope times the signal. In the
    fit, the signal is rounded to `SIGNAL_BINS` values. The fit of the thresholds between cells
    starts from `thresholds` (u,). Rows with the cell -1 get the log probability 0.
    """
    n, m, u = cells.shape[0], own.shape[0], thresholds.shape[0]
    low, high = np.inf, -np.inf
    for i in range(m):
        low, high = min(low, signal[own[i]]), max(high, signal[own[i]])
    width = (high - low) / SIGNAL_BINS if high > low else 1.0
    counts = np.zeros((k, SIGNAL_BINS, u + 1))
    x, rows, square = np.zeros(SIGNAL_BINS), np.zeros(SIGNAL_BINS), 0.0
    for i in range(m):
        value = signal[own[i]]
        place = min(int((value - low) / width), SIGNAL_BINS - 1)
        counts[own[i] // n, place, cells[own[i] % n]] += 1.0
        x[place] += value
        rows[place] += 1.0
        square += value * value
    scale = 1.0 / math.sqrt(square / m) if square > 0.0 else 0.0
    for place in range(SIGNAL_BINS):
        x[place] *= scale / max(rows[place], 1.0)
    g = ordered_probit(counts, x, thresholds)
    for cluster in range(k):
        for i in range(n):
            c, place = cells[i], cluster * n + i
            log_chances[place] = 0.0
            if c >= 0:
                mean = g[0] * scale * signal[place] + (g[cluster] if cluster else 0.0)
                down = g[k + c - 1] - mean if c else -np.inf
                up = g[k + c] - mean if c < u else np.inf
                log_chances[place] = math.log(chance_between(down, up))


@inlined
def set_chances(A, coefficients, chances):
    """Set chances (K, n) to the probabilities of K levels: the softmax of coefficients @ A."""
    for i in range(A.shape[1]):
        top, whole = -np.inf, 0.0
        for c in range(coefficients.shape[0]):
            value = 0.0
            for a in range(A.shape[0]):
                value += coefficients[c, a] * A[a, i]
            chances[c, i] = value
            top = max(top, value)
        for c in range(coefficients.shape[0]):
            chances[c, i] = math.exp(chances[c, i] - top)
            whole += chances[c, i]
        for c in range(coefficients.shape[0]):
            chances[c, i] /= whole


@inlined
def logistic_loss(chances, level, coefficients):
    """Return the penalised negative log-likelihood of the rows' levels (m,).

    `chances` (K, m) are the probabilities of K levels by coefficients (K, f).
    """
    loss = 0.0
    for i in range(level.shape[0]):
        loss -= math.log(max(chances[level[i], i], 1e-300))
    n_levels, f = coefficients.shape
    for a in range(1, f):
        mean, square = 0.0, 0.0
        for c in range(n_levels):
            mean += coefficients[c, a] / n_levels
            square += coefficients[c, a] ** 2
        loss += 0.5 * PRIOR_MEAN_ROWS * (square - n_levels * mean * mean)
    return loss


@inlined
def logistic(A, level, n_levels):
    """Return the coefficients (K, f) of a logistic regression of level (m,) on terms A (f, m).

    K is `n_levels`, and the first term is 1. The coefficients maximise the penalised likelihood, by
    Newton's method with halved steps. The coefficients of the first level are 0. The penalty is on
    the differences between levels: a normal prior with the weight of `PRIOR_MEAN_ROWS` rows.
    """
    f, m = A.shape
    size = (n_levels - 1) * f
    found, chances = np.zeros((n_levels, f)), np.empty((n_levels, m))
    curve, step, w = np.empty((size, size)), np.empty(size), np.empty(m)
    set_chances(A, found, chances)
    loss = logistic_loss(chances, level, found)
    while True:
        for c in range(1, n_levels):
            for a in range(f):
                value = 0.0
                for i in range(m):
                    value += ((1.0 if level[i] == c else 0.0) - chances[c, i]) * A[a, i]
                if a > 0:
                    mean = 0.0
                    for other in range(n_levels):
                        mean += found[other, a] / n_levels
                    value -= PRIOR_MEAN_ROWS * (found[c, a] - mean)
                step[(c - 1) * f + a] = value
            for other in range(1, c + 1):
                for i in range(m):
                    w[i] = chances[c, i] * ((1.0 if other == c else 0.0) - chances[other, i])
                for a in range(f):
                    for b in range(f if other < c else a + 1):
                        value = 1e-9 if other == c and a == b else 0.0
                        for i in range(m):
                            value += w[i] * A[a, i] * A[b, i]
                        if a == b and a > 0:
                            share = (1.0 if other == c else 0.0) - 1.0 / n_levels
                            value += PRIOR_MEAN_ROWS * share
                        curve[(c - 1) * f + a, (other - 1) * f + b] = value
        solve(curve, size, step)
        share, best = 1.0, loss
        for _ in range(NEWTON_STEPS):
            trial = found.copy()
            for c in range(1, n_levels):
                for a in range(f):
                    trial[c, a] += share * step[(c - 1) * f + a]
            set_chances(A, trial, chances)
            best = logistic_loss(chances, level, trial)
            if best <= loss:
                break
            share *= 0.5
        if not best < loss - 1e-6 * m:
            if best <= loss:
                found = trial
            break
        found, loss = trial, best
    return found


@kernel
def describe_category(known, n_known, level, own, shares, log_n, densities):
    """Set densities (n,) to the log probabilities of level (n,); return the parameter count.

    The level is regressed on the columns known[:n_known], known (r, n) float64. The fit uses the
    rows with indices own (m,), and the densities are of all rows. shares (K,) are the shares of the
    levels in the table; the probabilities count them like one additional row. log_n is the
    logarithm of the number of rows for the BIC.
    """
    n, m, n_levels = level.shape[0], own.shape[0], shares.shape[0]
    counts = np.zeros(n_levels)
    for i in range(m):
        counts[level[own[i]]] += 1.0
    for i in range(n):
        at = int(max(level[i], 0))
        densities[i] = math.log((counts[at] + shares[at]) / (m + 1.0))
    there = np.flatnonzero(counts)
    n_there = there.shape[0]
    if n_there < 2 or m <= n_known:
        return n_levels - 1
    # Score tests of the predictors: the scatter of their means between levels.
    means, spreads, scores = np.empty(n_known), np.empty(n_known), np.zeros(n_known)
    column, sums = np.empty(m), np.empty(n_levels)
    for k in range(n_known):
        for i in range(m):
            column[i] = known[k, own[i]]
        means[k] = centre(column)
        spreads[k] = math.sqrt(dot(column, column) / m)
        sums[:] = 0.0
        for i in range(m):
            sums[level[own[i]]] += column[i] / (spreads[k] + 1e-9)
        if spreads[k] > 1e-6:
            for c in there:
                scores[k] -= sums[c] * sums[c] / counts[c]
    picked, f = lowest_places(scores, max(MAX_TERMS // (n_there - 1), 1)), 0
    while f < picked.shape[0] and scores[picked[f]] < -(n_levels - 1) * log_n:
        f += 1
    if f == 0:
        return n_levels - 1
    A = np.ones((f + 1, n))
    for j in range(f):
        k = picked[j]
        for i in range(n):
            A[j + 1, i] = (known[k, i] - means[k]) / spreads[k]
    # The regression has only the levels that occur in own rows.
    number = np.full(n_levels, -1, np.int64)
    for code in range(n_there):
        number[there[code]] = code
    B, own_level = np.empty((f + 1, m)), np.empty(m, np.int64)
    for i in range(m):
        own_level[i] = number[level[own[i]]]
        for a in range(f + 1):
            B[a, i] = A[a, own[i]]
    coefficients, chances = logistic(B, own_level, n_there), np.empty((n_there, n))
    set_chances(A, coefficients, chances)
    found, gained = np.empty(n), 0.0
    for i in range(n):
        at = int(max(level[i], 0))
        chance = chances[number[at], i] if number[at] >= 0 else 0.0
        found[i] = math.log((m * chance + shares[at]) / (m + 1.0))
    for i in range(m):
        gained += found[own[i]] - densities[own[i]]
    if gained <= 0.5 * (n_levels - 1) * f * log_n:
        return n_levels - 1
    for i in range(n):
        densities[i] = found[i]
    return (n_levels - 1) * (1 + f)
