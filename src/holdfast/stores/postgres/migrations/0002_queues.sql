-- Who may take a run, and what goes first. Claims walk each queue at each priority by itself. Neither
-- column ever changes: a turn touches no index, as before.

ALTER TABLE holdfast.runs
    ADD COLUMN queue text COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN priority smallint NOT NULL DEFAULT 3;

DROP INDEX holdfast.runs_claim;
CREATE INDEX runs_claim ON holdfast.runs (ns, queue, priority, wake_at, id)
    WHERE wake_at IS NOT NULL;
DROP INDEX holdfast.runs_suspect;
CREATE INDEX runs_suspect ON holdfast.runs (ns, queue, priority, wake_at, id)
    WHERE strikes >= 2 AND wake_at IS NOT NULL;
