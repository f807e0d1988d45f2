-- Moves to or from other stores: this store's part, where the other one is, how far it has come. One
-- that is closed takes writes of the mover only.

CREATE TABLE moves (
    id       TEXT    NOT NULL,
    role     TEXT    NOT NULL,
    place    TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    progress TEXT    NOT NULL,
    closed   INTEGER NOT NULL,
    PRIMARY KEY (id, role)
) STRICT, WITHOUT ROWID;
