"""A job that runs beside its driver: its outcome, its error, and giving it up."""

from __future__ import annotations

from threading import Event

import pytest

from holdfast.spark.pipelines.job_ahead import JobAhead
from trials.pipeline.paper_spark import PaperSpark


def test_the_outcome_is_waited_for() -> None:
    """It begins at once, and whoever takes the outcome waits."""
    begun, let = Event(), Event()

    def work() -> int:
        begun.set()
        assert let.wait(60)
        return 7

    job = JobAhead(PaperSpark(), work)
    assert begun.wait(60)
    assert not job.wait(0.0)
    let.set()
    assert job.wait(60)
    assert job.take() == 7


def test_its_error_is_raised_where_the_outcome_is_taken() -> None:
    """Also if the context itself refuses."""
    spark = PaperSpark()
    spark.failures = [("ValueError", "no")]
    job = JobAhead(spark, lambda: spark.parallelize([1], 1).map(str).collect())
    with pytest.raises(RuntimeError, match="ValueError: no"):
        job.take()
    assert job.give_up() is None
    assert JobAhead(None, list).give_up() is None
    with pytest.raises(AttributeError):
        JobAhead(None, list).take()


def test_what_is_given_up_is_cancelled_and_has_ended() -> None:
    """What could not be stopped any more gives its outcome, which has to be cleared away."""
    spark, let = PaperSpark(), Event()

    def work() -> str:
        assert let.wait(60)
        return "written"

    job = JobAhead(spark, work)
    tags: list[str] = []

    def cancel(tag: str) -> None:
        """Spark does not know the job yet when it is cancelled first."""
        tags.append(tag)
        if len(tags) > 1:
            let.set()

    spark.cancelJobsWithTag = cancel  # type: ignore[method-assign]
    assert job.give_up() == "written"
    assert len(tags) > 1 == len(set(tags))
    done = JobAhead(spark, lambda: "done")
    assert done.take() == "done"
    assert done.give_up() == "done"
    assert len(set(tags)) == 1
