-- Events that name a blob are found without a walk through all events.

CREATE INDEX events_blobs ON events (ns, run, seq) WHERE codec = 2;
