"""The judge can say no: each planted fault is found, by the rule that is there for it."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.driver import NS
from chaos.evidence import UNTIL_TAKEN, Evidence, Fault
from chaos.flows import FARM_SLOTS, NARROW_SLOTS, PAID, TOILED, ticked
from chaos.journal import Line, Refused
from chaos.verdict import FREEZE, judge
from holdfast.model.dump import Sent
from holdfast.model.events import Event

Plant = Callable[[Evidence], Evidence]


def first(evidence: Evidence, workflow: str) -> str:
    """Return the id of the first run of a workflow."""
    return next(id for id, told in evidence.told.items() if told.workflow == workflow)


def with_events(
    evidence: Evidence, run: str, change: Callable[[list[Event]], list[Event]]
) -> Evidence:
    """Write the history of a run anew, and the row's count with it."""
    events = tuple(change(list(evidence.dump.events[NS, run])))
    runs = tuple(r._replace(seq=len(events)) if r.id == run else r for r in evidence.dump.runs)
    changed = {**evidence.dump.events, (NS, run): events}
    return evidence._replace(dump=evidence.dump._replace(events=changed, runs=runs))


def with_lines(evidence: Evidence, lines: tuple[Line, ...]) -> Evidence:
    return evidence._replace(pages=evidence.pages._replace(lines=lines))


def lost_start(evidence: Evidence) -> Evidence:
    lost, dump = first(evidence, "chain"), evidence.dump
    return evidence._replace(
        dump=dump._replace(
            runs=tuple(run for run in dump.runs if run.id != lost),
            events={key: events for key, events in dump.events.items() if key != (NS, lost)},
        )
    )


def lost_signal(evidence: Evidence) -> Evidence:
    run = first(evidence, "mail")
    told = evidence.told[run]
    more = replace(told, signals=[*told.signals, Sent(NS, run, "s9")])
    return evidence._replace(told={**evidence.told, run: more})


def doubled_record(evidence: Evidence) -> Evidence:
    def change(events: list[Event]) -> list[Event]:
        *before, close = events
        record = next(event for event in before if event.kind == "step.completed")
        again, close = record._replace(seq=close.seq), close._replace(seq=close.seq + 1)
        return [*before, again._replace(at=close.at), close]

    return with_events(evidence, first(evidence, "chain"), change)


def missing_line(evidence: Evidence) -> Evidence:
    return with_lines(evidence, evidence.pages.lines[1:])


def executed_after_its_record(evidence: Evidence) -> Evidence:
    line = evidence.pages.lines[0]
    later = line._replace(epoch=line.epoch + 1, mark="other")
    return with_lines(evidence, (*evidence.pages.lines, later))


def executed_twice_by_one_holder(evidence: Evidence) -> Evidence:
    again = evidence.pages.lines[0]._replace(mark="other")
    return with_lines(evidence, (*evidence.pages.lines, again))


def executed_for_no_run(evidence: Evidence) -> Evidence:
    stray = evidence.pages.lines[0]._replace(run="nobody", mark="other")
    return with_lines(evidence, (*evidence.pages.lines, stray))


def record_of_a_zombie(evidence: Evidence) -> Evidence:
    """The result is that of an earlier epoch than the one that recorded it."""
    before, *rest = evidence.pages.lines
    return with_lines(evidence, (before._replace(epoch=0), *rest))


def wrong_result(evidence: Evidence) -> Evidence:
    def change(events: list[Event]) -> list[Event]:
        stored = json.loads(events[-1].payload or b"")
        wrong = json.dumps({**stored, "value": stored["value"] + 1}).encode()
        return [*events[:-1], events[-1]._replace(payload=wrong)]

    return with_events(evidence, first(evidence, "fan"), change)


def another_ending_was_told(evidence: Evidence) -> Evidence:
    run = first(evidence, "chain")
    other = replace(evidence.told[run], status="cancelled")
    return evidence._replace(told={**evidence.told, run: other})


def accepted_cancel_without_effect(evidence: Evidence) -> Evidence:
    run = first(evidence, "chain")
    other = replace(evidence.told[run], cancel="accepted")
    return evidence._replace(told={**evidence.told, run: other})


def run_that_never_ends(evidence: Evidence) -> Evidence:
    open_ = first(evidence, "timers")
    runs = tuple(
        run._replace(status="waiting", closed_at=None) if run.id == open_ else run
        for run in evidence.dump.runs
    )
    changed = with_events(evidence, open_, lambda events: events[:-1])
    rows = tuple(run._replace(seq=run.seq - (run.id == open_)) for run in runs)
    return changed._replace(dump=changed.dump._replace(runs=rows))


def zombie_that_nobody_refused(evidence: Evidence) -> Evidence:
    mine = next(line for line in evidence.pages.lines if line.key == "work#1")
    lines = tuple(
        line._replace(epoch=line.epoch + 1, at=mine.at + 2, pid=mine.pid + 1)
        if line.run == mine.run
        else line
        for line in evidence.pages.lines
    )
    frozen = Fault(FREEZE, mine.at + 1, (mine.pid,), until=mine.at + 3)
    return with_lines(evidence, (mine._replace(mark="lost"), *lines))._replace(faults=(frozen,))


def frozen_host_that_nobody_refused(evidence: Evidence) -> Evidence:
    return evidence._replace(faults=(Fault(UNTIL_TAKEN, 1, (1,), until=2),))


def row_without_a_record(evidence: Evidence) -> Evidence:
    place, _ = evidence.booked[0]
    return evidence._replace(booked=(*evidence.booked, (place, "of a zombie")))


def row_that_is_missing(evidence: Evidence) -> Evidence:
    return evidence._replace(booked=evidence.booked[1:])


def row_that_is_doubled(evidence: Evidence) -> Evidence:
    return evidence._replace(booked=(*evidence.booked, evidence.booked[0]))


def paid_twice(evidence: Evidence) -> Evidence:
    line = next(line for line in evidence.pages.lines if line.key.startswith(PAID))
    before = line._replace(epoch=line.epoch - 1, mark="other")
    return with_lines(evidence, (before, *evidence.pages.lines))


def job_done_after_its_record(evidence: Evidence) -> Evidence:
    line = next(line for line in evidence.pages.lines if line.key.startswith(TOILED))
    later = line._replace(epoch=line.epoch + 1, mark="other")
    return with_lines(evidence, (*evidence.pages.lines, later))


def crowded_runs(evidence: Evidence) -> Evidence:
    """As many more as there are slots begin and end with a run, under its key."""
    id = first(evidence, "narrow")
    [run] = [run for run in evidence.dump.runs if run.id == id]
    line = next(line for line in evidence.pages.lines if line.run == id)
    more = [f"{id}-{n}" for n in range(NARROW_SLOTS)]
    runs = (*evidence.dump.runs, *(run._replace(id=other) for other in more))
    planted = with_lines(
        evidence, (*evidence.pages.lines, *(line._replace(run=other) for other in more))
    )
    told = {**evidence.told, **dict.fromkeys(more, evidence.told[id])}
    return planted._replace(dump=evidence.dump._replace(runs=runs), told=told)


def crowded_jobs(evidence: Evidence) -> Evidence:
    line = next(line for line in evidence.pages.lines if line.key.startswith(TOILED))
    more = (line._replace(run=f"{line.run}-{n}") for n in range(FARM_SLOTS))
    return with_lines(evidence, (*evidence.pages.lines, *more))


def slot_without_a_run(evidence: Evidence) -> Evidence:
    dump = evidence.dump
    ticks = sorted(run.id for run in dump.runs if run.workflow == ticked.name)
    lost = ticks[len(ticks) // 2]
    return evidence._replace(
        dump=dump._replace(
            runs=tuple(run for run in dump.runs if run.id != lost),
            events={key: events for key, events in dump.events.items() if key != (NS, lost)},
        )
    )


def blob_that_is_gone(evidence: Evidence) -> Evidence:
    gone = ((NS, first(evidence, "bulky")), "event 2: blob 7 is not there")
    return evidence._replace(dump=evidence.dump._replace(unread=(gone,)))


def event_that_was_another(evidence: Evidence) -> Evidence:
    return evidence._replace(changed=("I1 chain-0: event 2 is not what it was",))


def host_that_ended(evidence: Evidence) -> Evidence:
    return evidence._replace(hosts=("host a (1) ended by itself, with 1",))


def call_that_raised(evidence: Evidence) -> Evidence:
    return evidence._replace(calls=("run 7: a call raised TypeError() at here",))


PLANTED: list[tuple[Plant, str]] = [
    (lost_start, "invariant: I5"),
    (lost_signal, "signals: mail-"),
    (lost_signal, "invariant: I5"),
    (doubled_record, "record: chain-"),
    (doubled_record, "invariant: I4"),
    (missing_line, "the journal has no such execution"),
    (executed_after_its_record, "after it was recorded"),
    (executed_twice_by_one_holder, "2 times in epoch"),
    (executed_for_no_run, "execution: nobody executed"),
    (record_of_a_zombie, "it was executed in epoch 0"),
    (wrong_result, "came to"),
    (another_ending_was_told, "its caller was told cancelled"),
    (accepted_cancel_without_effect, "its cancel was accepted"),
    (run_that_never_ends, "is still waiting"),
    (zombie_that_nobody_refused, "zombie: 1 steps of frozen hosts"),
    (frozen_host_that_nobody_refused, "zombie: 1 hosts were frozen past their lease"),
    (row_without_a_record, "booking: default/ledger-"),
    (row_that_is_missing, "1 rows are missing"),
    (row_that_is_doubled, "that are not recorded"),
    (paid_twice, "once: once-"),
    (job_done_after_its_record, "after it was recorded"),
    (crowded_runs, "held slots of queue narrow"),
    (crowded_runs, "of its key held slots of queue narrow"),
    (crowded_jobs, "held slots of queue farm"),
    (slot_without_a_run, "slot: tick has no run between"),
    (blob_that_is_gone, "invariant: I14"),
    (event_that_was_another, "invariant: I1 chain-0"),
    (host_that_ended, "host: host a"),
    (call_that_raised, "call: run 7"),
]


def test_an_undisturbed_round_has_no_violation(evidence: Evidence) -> None:
    assert {told.workflow for told in evidence.told.values()} == {
        "chain", "fan", "timers", "mail", "retries", "stopped", "raced", "ledger", "narrow",
        "farmed", "once", "bulky",
    }  # fmt: skip
    assert judge(evidence) == []


@pytest.mark.parametrize(
    ("plant", "complaint"), PLANTED, ids=[f"{p.__name__}-{c.split(':')[0]}" for p, c in PLANTED]
)
def test_what_must_not_be_is_found(evidence: Evidence, plant: Plant, complaint: str) -> None:
    found = [str(violation) for violation in judge(plant(evidence))]
    assert any(complaint in text for text in found), found


def test_a_zombie_that_was_refused_is_no_violation(evidence: Evidence) -> None:
    planted = zombie_that_nobody_refused(evidence)
    refused = planted._replace(pages=planted.pages._replace(refused=(Refused(1, 1),)))
    assert not [v for v in judge(refused) if v.rule == "zombie"]
