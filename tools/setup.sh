#!/bin/sh
# Make a virtual environment with Holdfast (editable), its tools, and nothing else.
#
# Takes the first Python 3.11 or newer that can make one, the system's before all others:
# distributions build theirs with profiles of what runs, version managers by default do not, and the
# tests take a seventh more of a processor then. Every version comes from constraints.txt, the build
# tools included. Safe to run again: it only brings the environment up to date. Called by `make
# setup`.

set -eu
venv=${1:-.venv}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$name" && can_make_venv "$name"; then
            echo "$name"
            return 0
        fi
    done
    return 1
}

# Debian ships python3 without venv and ensurepip; the package python3-venv has them.
install_python() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: no Python that can make a virtual environment; installing python3-venv" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends python3 python3-venv >&2
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || ! is_new_enough "$venv/bin/python"; then
    python=$(find_python) || { install_python && python=$(find_python); } || {
        echo "setup: needs Python 3.11 or newer with its venv module." >&2
        echo "setup: on Debian and Ubuntu: apt-get install python3 python3-venv (as root)," >&2
        echo "setup: or name another one: make setup PYTHON=/path/to/python3" >&2
        exit 1
    }
    echo "setup: $("$python" --version) makes $venv"
    "$python" -m venv --clear "$venv"
fi

# The build tools first, at their pinned versions, then everything without build isolation:
# an isolated build would fetch a setuptools of its own choice.
pip="$venv/bin/python -m pip --disable-pip-version-check -qq"
$pip install --no-compile --constraint constraints.txt --upgrade pip setuptools
$pip install --no-compile --constraint constraints.txt --no-build-isolation --editable '.[dev]'
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# pip compiles one module after the other, and half of them are other projects' tests, a hundred
# simulated services, and what mypy has as machine code.
"$venv/bin/python" -m compileall -qq -j 0 -x '/(tests|moto|mypy|mypyc)/' "$packages" || true
# `trials` is not installed with the product: what proves it is imported from this repository.
pwd > "$packages/trials.pth"

# The data pipeline runs on Spark, and Spark on Java 17 or newer. Everything else works without.
java_is_new_enough() {
    java=java
    [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ] && java=$JAVA_HOME/bin/java
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

install_java() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: no Java 17 or newer; installing openjdk-17-jre-headless" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >&2
}

java_is_new_enough || { install_java && java_is_new_enough; } || echo "setup: Spark needs Java 17" \
    "or newer; on Debian and Ubuntu: apt-get install openjdk-17-jre-headless (as root)" >&2

# The chaos tests put a layer between the broker and its disk.
install_compiler() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: no C compiler; installing gcc and libc6-dev" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends gcc libc6-dev >&2
}

command -v cc >/dev/null 2>&1 || install_compiler || echo "setup: the chaos tests need a C compiler;" \
    "on Debian and Ubuntu: apt-get install gcc libc6-dev (as root)" >&2

# The client library is tested with other brokers. Where systemd runs, their packages would start them
# as services: that is left to whoever owns the machine.
have_brokers() { [ -e /usr/share/activemq/bin/activemq.jar ] && [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; }

install_brokers() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && [ ! -d /run/systemd/system ] || return 1
    echo "setup: installing activemq and rabbitmq-server, for tests" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends activemq rabbitmq-server >&2
}

have_brokers || install_brokers || echo "setup: the client's tests with other brokers need them;" \
    "on Debian and Ubuntu: apt-get install activemq rabbitmq-server (as root)" >&2

echo "setup: $("$venv/bin/python" --version), Holdfast and its tools are in $venv"
