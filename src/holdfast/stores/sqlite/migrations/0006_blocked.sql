-- Workers look for blocked runs every minute. These are few: finding them must not cost a walk
-- through all runs.

CREATE INDEX runs_blocked ON runs (ns, created_at, id) WHERE status = 'blocked';
