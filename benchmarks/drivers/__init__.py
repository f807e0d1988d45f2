"""psycopg 3 beside asyncpg, for exactly the work of our PostgreSQL store.

    python -m benchmarks.drivers        about a minute; writes DRIVERS.md beside this folder

    statements.py    the statements, and the rows they are given
    asyncpg_.py  psycopg_.py    the drivers, each in the ways we could use it
    measure.py       the pieces of work, timed; runs in an environment with both drivers
    __main__.py      a server, the rounds, the table

One thread does all of a worker's Python, so the processor time of a call counts as much as its
length: what a driver spends there, no body can use.
"""
