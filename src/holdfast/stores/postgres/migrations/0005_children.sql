-- What ties a child to the run that started it, and what becomes of it when that one closes.

CREATE TABLE holdfast.children (
    ns         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    parent     text COLLATE "C" NOT NULL,
    key        text   NOT NULL,
    generation bigint NOT NULL,
    policy     text   NOT NULL,
    PRIMARY KEY (ns, run)
);

CREATE INDEX children_parent ON holdfast.children (ns, parent, run);
