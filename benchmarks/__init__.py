"""Holdfast beside its peers and beside what the disk allows, measured in one run.

    python -m benchmarks                     everything, three interleaved rounds (twenty minutes)
    python -m benchmarks --store postgres    only there
    python -m benchmarks --quick             the same shape, small, one round

Where is what:

    work.py       the pieces of work, their sizes, the figures they yield
    contenders.py who is measured, with which interpreter, on which store
    rounds.py     the interleaved rounds: one process per piece of work and contender
    ours.py  raw.py  raw_postgres.py  peers/
                  the drivers; each prints one JSON line per measurement
    flows.py  many.py  family.py    the workflows of ours; its W8; its W9 and W10
    exact.py  timers.py  farm.py  sealed.py    its W11; its W12; its W13; its W14
    postgres.py   the server of a run, and new databases on it
    syncs.py      disk syncs a step, counted by strace or by the server
    drivers/      which PostgreSQL driver our store should use: a benchmark of its own
    figures.py    medians;  targets.py  what we promised;  report.py  plot.py  what is written

Absolute times move by a factor of two on a shared machine. Ratios are therefore taken within
a round, between neighbours in time, and the median of the rounds is reported.
"""
