"""Both databases are asked under the same names; what only one of them needs is listed here."""

from holdfast.stores.queries import queries_of

ONLY_SQLITE = {
    # Rows one by one, where PostgreSQL takes a round of them as arrays.
    "advance_run", "advance_run_by_two", "close_run", "settle_run", "inbox_of_run", "put_in_run",
    "is_held", "clear_strikes", "delete_progress_of", "put_wait", "put_job", "drop_job",
    "end_wait", "renew_worker", "add_message", "reply_to_message",
    # Several looks, where PostgreSQL makes one of them to spare round trips.
    "next_lane", "next_queue", "claimable_runs", "next_wake_at", "unregistered_workflows",
    "unserved_queues", "held_runs", "other_workers", "next_owner", "holds_runs", "runs_of_worker",
    "named_run", "is_lease_new", "job_queues",
    "due_jobs", "next_job_at", "claim_job", "holders_of_jobs",
    "is_any_job", "first_job_key", "next_job_key", "first_job_of_key", "next_schedule",
    "living_events", "progress", "unread_messages", "undecided_updates",
    # A run is forgotten table by table, where PostgreSQL does it in one statement.
    "delete_run", "delete_events", "delete_bases", "delete_inbox", "delete_tags", "delete_lines",
    "delete_link", "delete_waits", "delete_ticket",
    # Lines are walked statement by statement, where PostgreSQL has a function for it.
    "is_managed", "free_ticket", "admit_ticket", "join_line", "rest_in_line",
    "claimable_begun", "first_key", "next_key", "first_in_line", "next_in_line", "held_of_queue",
    "held_of_key", "held_on_worker", "waiting_of_queue", "first_blocked", "add_admission",
    "forget_admissions",
    # A dead worker's runs are taken in three statements, where PostgreSQL does it in one.
    "is_worker", "delete_dead_worker", "release_runs_of", "release_jobs_of",
    # A store is filled row by row, where PostgreSQL takes all at once.
    "add_rows",
    # The row of a run that is held lags.
    "stored_run",
    # The number of a run, and the place of an event, are the file's own.
    "add_runs", "first_events", "next_events", "is_row", "is_event",
    # The clock is the machine's, and kept; PostgreSQL has one for all.
    "mark_clock",
    # Hints to the planner, and a column of any type.
    "find_labelled_runs", "value_is", "value_above", "value_from", "value_below", "value_to",
}  # fmt: skip

ONLY_POSTGRES = {
    "clock", "server", "server_at_home", "has_schema", "link", "timeline", "schema_version",
    "limit_transactions",
    "mark_schema", "lock_schema", "sizes", "oldest_transaction", "is_pruned_lately",
    "reap_worker", "take_over", "claim_named",
    # Turns that only add one event, or two.
    "plain_turn", "plain_pair",
    "lock_run", "look", "lanes", "load", "end", "prune_runs", "notify", "listening_workers",
    "term_never", "lock_tables", "next_tags", "truths",
    "job_lanes", "claim_jobs", "look_at_jobs", "job_heads", "admit_jobs", "admitted_jobs",
    "jobs_seen", "taken_jobs", "claimed_jobs",
    # Turns that reach other runs, many of them in few statements.
    "runs_of_ids", "lock_runs", "post_messages",
    # Lines: what keeps them, in few statements; who is admitted, by a function.
    "locked_queues", "add_queue", "free_tickets", "line_up", "rooms", "heads", "due_lanes",
    "admit_runs", "admitted_runs", "queue_states", "lanes_unmanaged", "runs_begun",
    "word_is", "word_above", "word_from", "word_below", "word_to",
    "number_is", "number_above", "number_from", "number_below", "number_to",
}  # fmt: skip

FRAGMENTS = ("round_", "quick_", "told_", "applied_", "lone_")
"""What rounds are put together from."""


def test_both_stores_use_the_same_names() -> None:
    sqlite = set(queries_of("holdfast.stores.sqlite"))
    postgres = {
        name for name in queries_of("holdfast.stores.postgres") if not name.startswith(FRAGMENTS)
    }
    assert sqlite - postgres == ONLY_SQLITE
    assert postgres - sqlite == ONLY_POSTGRES
