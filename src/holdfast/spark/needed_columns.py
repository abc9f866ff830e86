"""
`query_log`: a query of the log that reads only the columns which it needs.

Spark does not tell a Python data source which columns a query needs, so bodies and headers are cut
out and sent to Java for a query that only counts. The query is therefore planned twice: first over
a stand-in with all columns and no rows, of whose optimized plan the needed ones are read; then over
the log, of which only these are read. The others are null there: the plan has shown that nothing of
the result depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

from holdfast.errors import ConfigError
from holdfast.spark.options import ReadOptions, read_options
from holdfast.spark.schema import COLUMNS, PROBLEM, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_STAND_IN: Final = "LogicalRDD"
"""What Spark calls a frame of rows that some program gives it."""


def query_log(
    session: SparkSession,
    query: Callable[[DataFrame], DataFrame],
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """
    Return what `query` makes of a view of the log, of which only the needed columns are read.

    Args:
        query: Makes a DataFrame of one that has every column of the view, also those that must be
            named else. Called twice; it builds, and runs nothing.
        stream: Read as `readStream` does.
        options: Those of the data source; `columns` is what this function is for.

    Raises:
        ConfigError: An option is wrong, or the session is one of Spark Connect, whose plans a
            program does not see.
    """
    if any(name.lower() == "columns" for name in options):
        raise ConfigError(["columns: found from the query; leave it out here"])
    asked = read_options(options)
    everything = spark_schema(asked.view, _every_column(asked))
    needed = needed_columns(session, query, everything)
    reader = session.readStream if stream else session.read
    log = reader.format("holdfast").options(**options, columns=", ".join(needed)).load()
    return query(
        log.select(
            *(
                F.col(f"`{it.name}`") if it.name in needed else _null(it.name, it.dataType)
                for it in everything
            )
        )
    )


def needed_columns(
    session: SparkSession, query: Callable[[DataFrame], DataFrame], schema: StructType
) -> tuple[str, ...]:
    """
    Return which columns of a frame with this schema a query's result depends on, in their order.

    At least one: a count still needs the rows.

    Raises:
        ConfigError: The session is one of Spark Connect.
    """
    if not hasattr(session, "_jsparkSession"):
        raise ConfigError(["session: Spark Connect shows no plans; use the option columns"])
    # Of no rows that Spark could know of: what is known to be empty is optimized away.
    stand_in = session.createDataFrame(session.sparkContext.emptyRDD(), schema)
    mark = _leaves(_plan(stand_in, "analyzed"))[0].rdd().id()
    plan = _plan(query(stand_in), "optimizedPlan")
    plans = [plan, *_items(plan.subqueriesAll())]
    used = {
        _identity(attribute) for it in plans for attribute in (*_items(it.output()), *_uses(it))
    }
    of_log = [
        attribute.name()
        for it in plans
        for leaf in _leaves(it)
        if leaf.nodeName() == _STAND_IN and leaf.rdd().id() == mark
        for attribute in _items(leaf.output())
        if _identity(attribute) in used
    ]
    return tuple(it for it in schema.fieldNames() if it in of_log) or (schema.fieldNames()[0],)


def _every_column(asked: ReadOptions) -> tuple[str, ...]:
    names = tuple(column.name for column in COLUMNS[asked.view])
    return (*names, PROBLEM) if PROBLEM in asked.columns else names


def _null(name: str, kind: DataType) -> Column:
    return F.lit(None).cast(kind).alias(name)


def _plan(frame: DataFrame, stage: str) -> Any:
    """A plan as Java has it; there is no other way to see it."""
    return getattr(frame._jdf.queryExecution(), stage)()  # noqa: SLF001 - see above


def _uses(plan: Any) -> Iterator[Any]:
    """Give every attribute that a node of the plan looks at; a leaf only has some."""
    left = [plan]
    while left:
        node = left.pop()
        children = _items(node.children())
        if children:
            yield from _items(node.references().toSeq())
        left += children


def _leaves(plan: Any) -> list[Any]:
    return _items(plan.collectLeaves())


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _items(sequence: Any) -> list[Any]:
    """The items of a list of Scala's."""
    return [sequence.apply(place) for place in range(sequence.size())]
