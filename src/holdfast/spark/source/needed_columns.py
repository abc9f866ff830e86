"""
`query_log`: a query of the log that reads only the columns which it needs.

Spark does not tell a Python data source which columns a query needs, so bodies and headers are cut
out and sent to Java for a query that only counts. The query is therefore planned twice: first over
a stand-in with all columns, of whose optimized plan the needed ones are read; then over the log, of
which only these are read. The others are null there: the plan has shown that nothing of the result
depends on them. Where a plan cannot show it (the stand-in is behind a cached frame or an RDD), all
are needed. The stand-in has no rows to give: a query that runs it while it is built is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import COLUMNS, PROBLEM, spark_schema
from holdfast.spark.source.options import ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_STAND_IN: Final = "LogicalRDD"
"""What Spark calls a frame of rows that some program gives it."""

_CACHED: Final = "InMemoryRelation"
_BY_NAME: Final = frozenset(
    (
        *("Project", "Filter", "Aggregate", "Join", "Sort", "Window", "Generate", "Expand"),
        *("GlobalLimit", "LocalLimit", "Sample", "SubqueryAlias", "ResolvedHint"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
    )
)
"""Nodes of a plan that look at no more of their children than they refer to. Others take columns by
their place (a union does), or are not known: these need all that their children give."""

_WAS_RUN: Final = "the query of query_log is run while it is built"


def query_log(
    session: SparkSession,
    query: Callable[[DataFrame], DataFrame],
    **options: str,
) -> DataFrame:
    """
    Return what `query` makes of a view of the log, of which only the needed columns are read.

    Args:
        query: Makes a DataFrame of one that has every column of the view, also those that must be
            named else. Called twice; it builds, and runs nothing, as `pivot` without values does.
            What else it leaves behind (a temporary view) has nulls for what was not needed.
        options: Those of the data source; `columns` is what this function is for.

    Raises:
        ConfigError: An option is wrong, the query runs something, or the session is one of Spark
            Connect, whose plans a program does not see.
    """
    if any(name.lower() == "columns" for name in options):
        raise ConfigError(["columns: found from the query; leave it out here"])
    asked = read_options(options)

    def load(columns: tuple[str, ...]) -> DataFrame:
        reader = session.read.format("holdfast").options(**options, columns=", ".join(columns))
        return reader.load()

    everything = spark_schema(asked.view, _every_column(asked))
    return query_needed(session, query, everything, load)


def query_needed(
    session: SparkSession,
    query: Callable[[DataFrame], DataFrame],
    schema: StructType,
    load: Callable[[tuple[str, ...]], DataFrame],
) -> DataFrame:
    """
    Return what `query` makes of a frame with this schema, of which it loads only what is needed.

    Args:
        query: See `query_log`.
        load: Gives the frame with the columns that it is told.

    Raises:
        ConfigError: See `needed_columns`.
    """
    needed = needed_columns(session, query, schema)
    loaded = load(needed)
    return query(
        loaded.select(
            *(
                F.col(f"`{it.name}`") if it.name in needed else _null(it.name, it.dataType)
                for it in schema
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
        ConfigError: The session is one of Spark Connect, or the query runs something.
    """
    if not hasattr(session, "_jsparkSession"):
        raise ConfigError(["session: Spark Connect shows no plans; use the option columns"])
    # What Spark knows to be empty is optimized away; of this it knows nothing.
    rows = session.sparkContext.parallelize([0], 1).map(_refuse)
    stand_in = session.createDataFrame(rows, schema)
    mark = _leaves(_plan(stand_in, "analyzed"))[0].rdd().id()
    try:
        plan = _plan(query(stand_in), "optimizedPlan")
    except Exception as error:
        if _WAS_RUN not in str(error):
            raise
        raise ConfigError(
            [f"query: {_WAS_RUN} (a pivot without values is, for one); read without query_log"]
        ) from None
    plans = [plan, *_items(plan.subqueriesAll())]
    leaves = [leaf for it in plans for leaf in _leaves(it)]
    shown = [leaf for leaf in leaves if leaf.nodeName() == _STAND_IN and leaf.rdd().id() == mark]
    if not shown or any(_may_hide(leaf, mark) for leaf in leaves):
        return tuple(schema.fieldNames())
    used = {
        _identity(attribute) for it in plans for attribute in (*_items(it.output()), *_uses(it))
    }
    of_log = [
        attribute.name()
        for leaf in shown
        for attribute in _items(leaf.output())
        if _identity(attribute) in used
    ]
    return tuple(it for it in schema.fieldNames() if it in of_log) or (schema.fieldNames()[0],)


def _refuse(_row: int) -> Any:
    raise RuntimeError(_WAS_RUN)


def _may_hide(leaf: Any, mark: int) -> bool:
    """Whether a frame of the log may stand behind this leaf: what was cached, or made of an RDD."""
    kind = leaf.nodeName()
    return bool(kind == _CACHED or (kind == _STAND_IN and leaf.rdd().id() > mark))


def _every_column(asked: ReadOptions) -> tuple[str, ...]:
    names = tuple(column.name for column in COLUMNS[asked.view])
    return (*names, PROBLEM) if PROBLEM in asked.columns else names


def _null(name: str, kind: DataType) -> Column:
    return F.lit(None).cast(kind).alias(name)


def _plan(frame: DataFrame, stage: str) -> Any:
    """A plan as Java has it; there is no other way to see it."""
    return getattr(frame._jdf.queryExecution(), stage)()  # noqa: SLF001 - see above


def _uses(plan: Any) -> Iterator[Any]:
    """Give every attribute that a node of the plan looks at, or may; a leaf only has some."""
    left = [plan]
    while left:
        node = left.pop()
        children = _items(node.children())
        if children:
            yield from _items(node.references().toSeq())
        if node.nodeName() not in _BY_NAME:
            for child in children:
                yield from _items(child.output())
        left += children


def _leaves(plan: Any) -> list[Any]:
    return _items(plan.collectLeaves())


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _items(sequence: Any) -> list[Any]:
    """The items of a list of Scala's."""
    return [sequence.apply(place) for place in range(sequence.size())]
