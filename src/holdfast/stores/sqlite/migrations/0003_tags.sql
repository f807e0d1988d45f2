-- What a caller said of a run so that it can be found: a tag has no name, an attribute has one.
-- `value` keeps its type (text, integer, real); `kind` is tag, str, int, float or bool.

CREATE TABLE run_tags (
    ns    TEXT NOT NULL,
    run   TEXT NOT NULL,
    name  TEXT NOT NULL,
    kind  TEXT NOT NULL,
    value ANY  NOT NULL,
    PRIMARY KEY (ns, run, name, value)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_tags_found ON run_tags (ns, name, value, run);
