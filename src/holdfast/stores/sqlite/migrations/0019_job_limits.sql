-- Jobs take turns by key on managed queues, and hold their slots.

ALTER TABLE jobs ADD COLUMN queue_key TEXT NOT NULL DEFAULT '';
ALTER TABLE queues ADD COLUMN last_job_key TEXT;

CREATE INDEX jobs_line ON jobs (ns, queue, priority, queue_key, wake_at, run, key)
    WHERE owner IS NULL;
CREATE INDEX jobs_slots ON jobs (ns, queue, queue_key, run) WHERE owner IS NOT NULL;
