#!/usr/bin/env bash
# Installs what a bare Debian-like machine lacks, and nothing twice.
#   tools/install.sh use    for real use: uv, the locked environment, Java 17+, the jars that Spark needs
#   tools/install.sh demo   the same, and RocketMQ's published jars
#   tools/install.sh test   the same, and what only tests need: a browser, a PostgreSQL server
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-use}
export PATH="$PWD/.cache/uv/bin:$PATH" UV_PYTHON_DOWNLOADS=never
# Networks with a certificate authority of their own tell it to the system, not to uv.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then export UV_SYSTEM_CERTS=true; fi

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

updated=no
install_packages() { # PURPOSE PACKAGE...: through the system's package manager where it may
    local needed_for=$1
    shift
    command -v apt-get >/dev/null || fail "$needed_for is missing and there is no apt-get: install it, then run this again"
    say "installing $* with apt-get ($needed_for)"
    if [ "$updated" = no ]; then
        as_root apt-get update -qq || fail "$needed_for is missing: run 'apt-get install $*' as root, then this again"
        updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install $*: install $needed_for yourself, then run this again"
}

pace_of() { # PYTHON: prints microseconds for a fixed piece of work, and its path; fails unless it is whole and supported
    "$1" -c 'if True:
        import bz2, ctypes, lzma, sqlite3, ssl, sys, timeit
        if not (3, 11) <= sys.version_info[:2] <= (3, 13): sys.exit(1)
        print(int(min(timeit.repeat("sum(i * i for i in range(1000))", number=500, repeat=7)) * 1e6), sys.executable)
    ' 2>/dev/null
}

# Distributions optimize their Python with profiles; one built by hand or by pyenv usually is not, and a fifth to a third
# slower in everything. So a new environment gets the system's where that is quicker by a tenth. UV_PYTHON has precedence.
choose_python() {
    if [ -n "${UV_PYTHON:-}" ] || [ -e .venv ]; then return; fi
    local candidate pace executable least=
    for candidate in python3 /usr/bin/python3; do
        read -r pace executable < <(pace_of "$candidate") || continue
        if [ -z "$least" ] || [ $((pace * 10)) -lt $((least * 9)) ]; then
            least=$pace UV_PYTHON=$executable
        fi
    done
    [ -n "$least" ] ||
        fail "python3 must be Python 3.11, 3.12 or 3.13 with its whole library: $(python3 --version 2>&1 || true)"
    export UV_PYTHON
    say "the environment is made with $("$UV_PYTHON" --version), $UV_PYTHON"
}

install_uv() {
    command -v uv >/dev/null && return
    say "installing uv into .cache/uv"
    python3 -m venv .cache/uv >/dev/null 2>&1 || { install_packages "Python's venv" python3-venv && python3 -m venv .cache/uv; }
    .cache/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/uv-requirements.txt
}

java_is_enough() {
    command -v java >/dev/null &&
        [ "$(java -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = \([0-9]*\).*/\1/p')" -ge 17 ]
}

install_java() {
    java_is_enough && return
    local package
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if apt-cache show "$package" >/dev/null 2>&1 || [ "$package" = default-jre-headless ]; then break; fi
    done
    install_packages "a Java 17+ runtime" "$package"
    java_is_enough || fail "java is older than 17: put a newer one first in PATH"
}

install_browser() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
        install_packages "a browser for the tests of pages" chromium fonts-noto-color-emoji
}

install_postgresql() {
    command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
        install_packages "a PostgreSQL server for the tests" postgresql
}

install_uv
choose_python
say "checking the locked environment (.venv)"
# Compiled once here: hundreds of short processes (commands, Airflow's tasks) would compile all that they import.
uv sync --frozen --quiet --compile-bytecode
uv run --frozen --no-sync python -m compileall -q plugins spark expectations tests/peers
install_java
command -v setpriv >/dev/null || install_packages "setpriv, which ends our brokers with their parent" util-linux
case $purpose in
    use) jar_sets=(iceberg) ;;
    demo) jar_sets=(iceberg ecj rocketmq-4.9.7) ;;
    test)
        install_browser
        install_postgresql
        jar_sets=(iceberg ecj rocketmq-4.9.7 rocketmq-5.3.3 rocketmq-5.5.0)
        jar_sets+=(rocketmq-proxy-5.5.0 rocketmq-client-java-5.2.0) # groups that consume by POP and over gRPC
        ;;
    *) fail "usage: tools/install.sh use|demo|test" ;;
esac
uv run --frozen --no-sync python -m offsetguard_spark.jars "${jar_sets[@]}"
say "everything is installed"
