"""
Deliveries by Spark, of tables that are made by hand.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.spark.pipelines.deliveries import Taker, Told, deliveries

ANN, BEN, CAT = 11, 12, 13


def test_the_first_that_took_a_delivery_off_its_subscription_counts(spark: SparkSession) -> None:
    """
    Ann came with 2 and skips 3, by a bit of the second byte; what she is done with is told late.
    Ben is cut twice, the first time after 1 was acknowledged. Cat ends, cut off in that entry;
    message 5 came later. She was done with 9, which nobody has stored.
    """
    marks = [None, None, bytearray(b"\0\x02"), None, None]
    stored = [(1, number, 10 * number, marks[number - 1]) for number in range(1, 6)]
    settled = [
        (ANN, 2, 60, "expired"),
        (ANN, 2, 61, "acknowledged"),
        (BEN, 1, 15, "acknowledged"),
        (BEN, 2, 59, "dead-lettered"),
        (CAT, 9, 31, "acknowledged"),
        (99, 1, 31, "acknowledged"),
    ]
    trims = [(BEN, 2, 25, 3), (BEN, 3, 35, 4), (CAT, 4, 44, 7), (98, 4, 44, 7)]
    told = Told(
        stored=spark.createDataFrame(
            stored, "topic long, sequence long, record_number long, skips binary"
        ),
        settled=spark.createDataFrame(
            [(who, number, at, at * 7, fate) for who, number, at, fate in settled],
            "subscription long, sequence long, at long, time long, settled_as string",
        ),
        trims=spark.createDataFrame(
            [(who, number, at, at * 7, entry) for who, number, at, entry in trims],
            "subscription long, sequence long, at long, time long, index long",
        ),
        takers=[
            Taker(ANN, 1, 9, 2),
            Taker(BEN, 1, 0, 1),
            Taker(CAT, 1, 1, 3, ended_at=45, ended_time=45 * 7, ended_index=7),
        ],
    )
    found = {
        (row["subscription"], row["sequence"]): (row["fate"], row["at"], row["time"], row["is_for"])
        for row in deliveries(told).collect()
    }
    live = ("live", None, None, True)
    assert found == {
        (ANN, 2): ("expired", 60, 420, True),
        (ANN, 4): live,
        (ANN, 5): live,
        (BEN, 1): ("acknowledged", 15, 105, True),
        (BEN, 2): ("dropped", 25, 175, True),
        (BEN, 3): ("dropped", 35, 245, True),
        (BEN, 4): live,
        (BEN, 5): live,
        (CAT, 3): ("deleted", 45, 315, True),
        (CAT, 4): ("deleted", 45, 315, True),
        (CAT, 9): ("acknowledged", 31, 217, False),
    }
