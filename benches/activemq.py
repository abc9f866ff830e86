"""
ActiveMQ Classic from the Debian package, as one broker with a KahaDB of its own.

It syncs every persistent message to disk before its receipt (`enableJournalDiskSyncs`, its
default). Memory is set to 1 GiB; all else stays as the product has it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from brokers import Broker, end, package_version, wait_port

from holdfast.testing.free_ports import free_ports

_PROGRAM = Path("/usr/share/activemq/bin/activemq.jar")
_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
  http://activemq.apache.org/schema/core
  http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="bench"
      dataDirectory="{directory}/data"{attributes}>{elements}
    <persistenceAdapter>{persistence}</persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:{port}"/>
    </transportConnectors>
  </broker>{beans}
</beans>
"""


class ActiveMQ(Broker):
    """One ActiveMQ Classic broker."""

    name = "activemq"
    title = "ActiveMQ"
    process: subprocess.Popen[bytes] | None = None
    port = 0
    attributes = ""
    """Further attributes of the broker's element in its configuration, with a blank in front."""
    elements = ""
    """Further elements in it."""
    beans = ""
    """Further elements behind it."""

    @property
    def persistence(self) -> str:
        """How it keeps messages, as an element of its configuration."""
        return f'<kahaDB directory="{self.directory}/data/kahadb"/>'

    @classmethod
    def missing(cls) -> str:
        """It comes by `apt-get install activemq`."""
        return "" if _PROGRAM.exists() and package_version("activemq") else "not installed"

    @classmethod
    def version(cls) -> str:
        """The package's version and the settings that were changed."""
        return f"ActiveMQ Classic {package_version('activemq')}, KahaDB, 1 GiB heap"

    def start(self) -> None:
        """Start it and wait for its STOMP port."""
        if not self.port:  # Else it is started again, where its clients look for it.
            (self.port,) = free_ports(1)
        configuration = self.directory / "activemq.xml"
        configuration.write_text(
            _CONFIGURATION.format(
                directory=self.directory,
                port=self.port,
                attributes=self.attributes,
                elements=self.elements,
                beans=self.beans,
                persistence=self.persistence,
            )
        )
        places = {
            "activemq.home": _PROGRAM.parent.parent,
            "activemq.base": self.directory,
            "activemq.conf": self.directory,
            "activemq.data": self.directory / "data",
            "java.io.tmpdir": self.directory,
            "org.apache.activemq.UseDedicatedTaskRunner": "false",
        }
        command = ["java", "-Xms1024M", "-Xmx1024M", *(f"-D{k}={v}" for k, v in places.items())]
        command += ["-jar", str(_PROGRAM), "start", f"xbean:file:{configuration}"]
        log = self.directory / "log"
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=self.directory
            )
        wait_port(self.port, self.process, log)

    def stop(self) -> None:
        """End it."""
        end(self.process)

    @property
    def address(self) -> str:
        """Its STOMP port."""
        return f"127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        """The Java process."""
        assert self.process is not None, "asked after start"
        return [self.process.pid]
