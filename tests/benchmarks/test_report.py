"""The results page: a part for each database, judged against the targets of that database."""

from benchmarks import plot, report, targets
from benchmarks.contenders import CONTENDERS
from benchmarks.figures import Figures
from benchmarks.rows import Row
from benchmarks.work import TIMES

MACHINE = {"processor": "some, 2 cores", "Python": "CPython 3.11"}


def run_on(family: str, step_ms: float) -> report.Run:
    """A run in which our step took so long, LangGraph's 7 ms, and a raw commit 0.5 ms."""
    took = {"holdfast": step_ms, "langgraph": 7.0, "raw": 0.5}
    rows = [
        Row(engine, family, "w1", "", {"step_ms": ms, "over_raw": step_ms / 0.5}, {}, {}, round_)
        for round_ in (1, 2, 3)
        for engine, ms in took.items()
    ]
    figures = Figures(rows)
    return report.Run(
        family=family,
        figures=figures,
        verdicts=targets.judge(family, figures, ["w1"], quick=False),
        syncs=(),
        contenders=[one for one in CONTENDERS if one.family == family],
        works=["w1"],
        rounds=3,
        quick=False,
        date="2026-11-16",
        commit="abc1234",
        machine=MACHINE,
        failures=(),
    )


def test_a_run_on_one_database_leaves_the_part_of_the_other():
    both = report.markdown([run_on("sqlite", 0.7), run_on("postgres", 1.5)], "")
    again = report.markdown([run_on("postgres", 0.9)], both)
    assert report.old_part("sqlite", again) == report.old_part("sqlite", both)
    assert "| 1.50 |" not in report.old_part("postgres", again)
    assert "0.900" in report.old_part("postgres", again)


def test_a_page_that_is_read_and_written_again_is_the_same():
    page = report.markdown([run_on("sqlite", 0.7), run_on("postgres", 1.5)], "")
    assert report.markdown([], page) == page


def test_each_database_has_targets_of_its_own():
    def against_langgraph(family: str) -> targets.Verdict:
        verdicts = run_on(family, 2.5).verdicts
        return next(one for one in verdicts if "LangGraph" in one.target.what)

    assert against_langgraph("sqlite").value == against_langgraph("postgres").value == 2.8
    assert against_langgraph("sqlite").met is True  # 2.5 times is asked for
    assert against_langgraph("postgres").met is False  # 3.5 times is


def test_the_picture_shows_the_figures_of_its_database():
    drawn = plot.svg(run_on("postgres", 1.5))
    assert "synced to PostgreSQL" in drawn
    assert f"4.7{TIMES} as fast as the best peer" in drawn
