-- Where the replay of a run begins that was continued: the numbers of its continuations.

CREATE TABLE bases (
    ns  TEXT    NOT NULL,
    run TEXT    NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (ns, run, seq)
) STRICT, WITHOUT ROWID;
