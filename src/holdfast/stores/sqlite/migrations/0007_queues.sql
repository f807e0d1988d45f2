-- Who may take a run, and what goes first. Claims walk each queue at each priority by itself.

ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 3;

DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (ns, queue, priority, wake_at, id) WHERE wake_at IS NOT NULL;
