"""
The database servers of these tests: started when the first test wants one, gone after the last.

Each test finds an empty database in it. A test that ends, kills or pauses the server has it for
itself: the tests of one file follow one another, and the next one finds it running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from trials.databases.galera import GaleraCluster, missing_galera
from trials.databases.mariadb import MariadbServer, missing_mariadb
from trials.databases.postgresql import PostgresqlServer, missing_postgresql
from trials.databases.server import DatabaseServer
from trials.electors.etcd import EtcdServer, missing_etcd
from trials.electors.zookeeper import ZookeeperServer, missing_zookeeper


@pytest.fixture(scope="session")
def postgresql_of_session() -> Iterator[PostgresqlServer]:
    """One server for all tests of this process."""
    if missing := missing_postgresql():
        pytest.skip(missing)
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_of_session() -> Iterator[MariadbServer]:
    """One server for all tests of this process."""
    if missing := missing_mariadb():
        pytest.skip(missing)
    with MariadbServer() as server:
        yield server


@pytest.fixture(scope="session")
def galera_of_session() -> Iterator[GaleraCluster]:
    """One cluster for all tests of this process; it takes ten seconds."""
    if missing := missing_galera():
        pytest.skip(missing)
    with GaleraCluster() as cluster:
        yield cluster


@pytest.fixture
def postgresql(postgresql_of_session: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """The server, running again after a test that ended or paused it."""
    yield postgresql_of_session
    go_on(postgresql_of_session)


@pytest.fixture
def mariadb(mariadb_of_session: MariadbServer) -> Iterator[MariadbServer]:
    """The server, running again after a test that ended or paused it."""
    yield mariadb_of_session
    go_on(mariadb_of_session)


@pytest.fixture
def galera(galera_of_session: GaleraCluster) -> Iterator[GaleraCluster]:
    """The cluster, whole again after a test that killed, paused or cut off its nodes."""
    yield galera_of_session
    galera_of_session.go_on()


def go_on(server: DatabaseServer) -> None:
    """Let it run, whatever a test did to it."""
    if server.is_running:
        server.resume()
    else:
        server.start()


ELECTORS: dict[str, tuple[type[DatabaseServer], Callable[[], str]]] = {
    "etcd": (EtcdServer, missing_etcd),
    "zookeeper": (ZookeeperServer, missing_zookeeper),
}


@pytest.fixture(params=ELECTORS, scope="module")
def elector_of_module(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """One server for all stories of its kind."""
    kind, missing = ELECTORS[request.param]
    if reason := missing():
        pytest.skip(reason)
    with kind() as server:
        yield server


@pytest.fixture
def elector_server(elector_of_module: DatabaseServer) -> Iterator[DatabaseServer]:
    """It runs again after a story that ended it."""
    yield elector_of_module
    go_on(elector_of_module)
