#!/usr/bin/env python3
"""Writes src/base/normal_table.inc: the inverse of the normal distribution as one polynomial a piece.

A piece is 1/8 of an octave of the tail probability t; the octaves run from [2^-34, 2^-33) to
[1/4, 1/2), and one piece more covers t = 1/2. A row holds c0..c5 of sum c_i r^i, where r in
[-1/2, 1/2) runs over the piece. Needs mpmath; run as
    scripts/generate_normal_table.py > src/base/normal_table.inc
"""
import mpmath as mp

mp.mp.prec = 120
OCTAVES, PIECES, DEGREE = 33, 8, 5


def quantile(t):
    return -mp.sqrt(2) * mp.erfinv(1 - 2 * t)


def fit(lo, width):
    """Interpolation at the Chebyshev nodes of [-1/2, 1/2], as monomials."""
    n = DEGREE + 1
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) / 2 for k in range(n)]
    rows = mp.matrix(n, n)
    for i, r in enumerate(nodes):
        for j in range(n):
            rows[i, j] = r**j
    values = mp.matrix([quantile(lo + (r + mp.mpf(1) / 2) * width) for r in nodes])
    return mp.lu_solve(rows, values)


def main():
    print("// Written by scripts/generate_normal_table.py.")
    for piece in range(OCTAVES * PIECES + 1):
        octave = mp.mpf(2) ** (piece // PIECES - OCTAVES - 1)
        width = octave / PIECES
        row = fit(octave + (piece % PIECES) * width, width)
        print("{" + ", ".join(float(c).hex() for c in row) + "},")


if __name__ == "__main__":
    main()
