"""
ActiveMQ Classic with its messages in a PostgreSQL, by JDBC: a row for each message.

As its manual has it: the JDBC adapter without a journal before it, its default locker, and a pool
of connections by Commons DBCP. Driver and pool are Debian's packages; what is missing is installed
where that is possible.
"""

from __future__ import annotations

from pathlib import Path

from activemq import ActiveMQ
from brokers import package_version

from trials.databases.server import install

_JARS = Path("/usr/share/java")
_PACKAGES = {
    "libpostgresql-jdbc-java": "postgresql.jar",
    "libcommons-dbcp2-java": "commons-dbcp2.jar",
    "libcommons-pool2-java": "commons-pool2.jar",
}
_BEANS = """
  <bean id="database" class="org.apache.commons.dbcp2.BasicDataSource" destroy-method="close"
      xmlns="http://www.springframework.org/schema/beans">
    <property name="driverClassName" value="org.postgresql.Driver"/>
    <property name="url" value="{url}"/>
    <property name="username" value="{user}"/>
    <property name="poolPreparedStatements" value="true"/>
    <property name="maxTotal" value="50"/>
  </bean>"""


class ActiveMQOnPostgresql(ActiveMQ):
    """One ActiveMQ Classic broker over a database, which is said before it is started."""

    name = "activemq-jdbc"
    title = "ActiveMQ on PostgreSQL"

    def __init__(self, directory: Path, nodes: int, url: str) -> None:
        """Take the database's address as Holdfast has it, `postgresql://user@host:port/name`."""
        super().__init__(directory, nodes)
        user, _, place = url.removeprefix("postgresql://").partition("@")
        self.beans = _BEANS.format(url=f"jdbc:postgresql://{place}", user=user)

    @classmethod
    def missing(cls) -> str:
        """ActiveMQ itself, or what leads it to a database."""
        if reason := super().missing():
            return reason
        if _absent():
            install(*_absent())
        return f"not installed: {', '.join(_absent())}" if _absent() else ""

    @classmethod
    def version(cls) -> str:
        """The versions of the package and of its way to the database."""
        driver = package_version("libpostgresql-jdbc-java")
        return (
            f"ActiveMQ Classic {package_version('activemq')}, JDBC without a journal, driver"
            f" {driver}, 1 GiB heap"
        )

    @property
    def persistence(self) -> str:
        """By JDBC."""
        data = f'dataDirectory="{self.directory}/data"'
        return f'<jdbcPersistenceAdapter {data} dataSource="#database"/>'

    def start(self) -> None:
        """Start it, with driver and pool where it looks for further classes."""
        folder = self.directory / "lib"
        folder.mkdir()
        for jar in _PACKAGES.values():
            (folder / jar).symlink_to(_JARS / jar)
        super().start()


def _absent() -> list[str]:
    return [package for package, jar in _PACKAGES.items() if not (_JARS / jar).exists()]
