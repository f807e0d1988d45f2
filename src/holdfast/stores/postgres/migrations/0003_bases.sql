-- Where the replay of a run begins that was continued: the numbers of its continuations.

CREATE TABLE holdfast.bases (
    ns  text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (ns, run, seq)
);
