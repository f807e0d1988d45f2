-- What a run said to an update is kept with the update. Those it has not decided on are found without
-- a walk through all messages.
ALTER TABLE inbox ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN reply BLOB;

CREATE INDEX inbox_undecided ON inbox (ns, run, n) WHERE kind = 'update' AND state = '';
