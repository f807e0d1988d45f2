-- What a run said to an update is kept with the update. Those it has not decided on are found without
-- a walk through all messages.
ALTER TABLE holdfast.inbox ADD COLUMN state text NOT NULL DEFAULT '', ADD COLUMN reply bytea;

CREATE INDEX inbox_undecided ON holdfast.inbox (ns, run, n) WHERE kind = 'update' AND state = '';
