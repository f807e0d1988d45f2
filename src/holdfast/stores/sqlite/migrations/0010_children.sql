-- What ties a child to the run that started it, and what becomes of it when that one closes.

CREATE TABLE children (
    ns         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    parent     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    policy     TEXT    NOT NULL,
    PRIMARY KEY (ns, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX children_parent ON children (ns, parent, run);
