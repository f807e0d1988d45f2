"""Real hosts, a real database and somebody who breaks both, while every promise is counted.

    python -m chaos                   60 s on SQLite, then 60 s on PostgreSQL
    python -m chaos --seed 7 --store postgres --seconds 600

Where is what:

    flows.py      the workflows and their steps; what each must come to
    journal.py    executions of steps, counted outside the store
    host.py       one worker process;  fleet.py  all of them, started again when they end
    driver.py     starts, signals and cancels, and keeps a list of what it was told
    nemesis.py    what breaks, and when;  proxy.py  the wire it breaks
    places.py     the databases
    evidence.py   all that is known at the end;  verdict.py  what of it must not be
    recovery.py   how long runs stood still;  report.py  the table
    plan.py       what a round is to do;  rounds.py  one store, from its start to its verdict

A seed repeats the work and the choice of faults. It cannot repeat the moment at which a process
is hit.
"""
