-- When a run must have ended. The queue also holds paused and blocked runs that have a deadline.

ALTER TABLE runs ADD COLUMN deadline INTEGER;

DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (ns, wake_at, id) WHERE wake_at IS NOT NULL;
