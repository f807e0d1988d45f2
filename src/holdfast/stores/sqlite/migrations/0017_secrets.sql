-- What the steps of open runs need: encrypted, with the id of the key. Gone when the run closes,
-- whichever statement closes it.

CREATE TABLE run_secrets (
    ns     TEXT NOT NULL,
    run    TEXT NOT NULL,
    name   TEXT NOT NULL,
    key    TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (ns, run, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER forget_secrets AFTER UPDATE OF closed_at ON runs
WHEN new.closed_at IS NOT NULL
BEGIN
    DELETE FROM run_secrets WHERE ns = new.ns AND run = new.id;
END;
